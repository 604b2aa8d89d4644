"""Analyses of a run's records; `run.py` puts them together."""
