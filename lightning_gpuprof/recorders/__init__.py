"""Recorders of facts beside timing, a file per fact. None of them changes the user's tensors.

The docstring of every `Recorder` has the entries `Costs:`, `Touches:` and `When:`, which
docs/reference/what-it-touches.md shows.
"""
