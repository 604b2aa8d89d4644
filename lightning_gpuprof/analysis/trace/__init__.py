"""What one Timeline says; `trace.py` puts all of it together."""
