"""Rules, one per file; RULES lists them by finding id.

The module of a rule is its id with underscores. Its docstring is its documentation page, and it
defines `ID` and `evaluate(run)`.
"""

RULES: tuple[str, ...] = (
    "data-wait",
    "slow-callback",
    "host-bound",
    "unused-vram",
)
