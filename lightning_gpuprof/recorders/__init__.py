"""One file per fact that is noted beside timing; none of them computes on the user's tensors.

The docstring of each has three lines that docs/what-it-touches.md shows: `Costs:`, `Touches:` and
`When:`.
"""
