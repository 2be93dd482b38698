"""Checks of the hosts' configs: which host a YAML is for, its merged settings, and what is wrong with them."""
