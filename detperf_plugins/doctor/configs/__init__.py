"""Checks of the hosts' configs: the host a YAML is for, its merged settings, its faults."""
