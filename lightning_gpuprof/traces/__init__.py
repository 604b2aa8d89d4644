"""Reads trace files of any profiler into one Timeline of columns."""
