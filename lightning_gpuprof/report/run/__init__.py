"""The sections of a run's document, each built from the run's results.

`<id>_section(run)` returns the section with that id, or None where nothing of it was measured.
`build_run.py` puts them in the order in which they are read.
"""
