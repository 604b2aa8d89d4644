"""What a run's records say of its steps; `run.py` puts all of it together."""
