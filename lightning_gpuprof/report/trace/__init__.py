"""Sections of the document of a trace: `build_trace.py` and the tab's views put them together."""
