"""Trials of changes in child runs, the planned batch size, latency and A/B tests.

No other package imports this one, but for the command line and the lazy public names.
"""
