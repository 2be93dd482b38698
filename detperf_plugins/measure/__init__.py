"""Timers, counters, comparisons and plots. Knows no host: what it measures is handed to it."""
