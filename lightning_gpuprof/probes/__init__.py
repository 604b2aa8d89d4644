"""Measures inside the training process, with torch alone: no Lightning, no files."""
