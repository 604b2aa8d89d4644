"""What one Timeline says; `trace_analysis.py` puts all of it together."""
