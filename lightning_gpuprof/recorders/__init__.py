"""Recorders of facts beside timing, a file per fact. None of them computes on the user's tensors.

The docstring of every `Recorder` has three entries that docs/what-it-touches.md shows: `Costs:`,
`Touches:` and `When:`.
"""
