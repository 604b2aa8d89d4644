"""Rules, one per file in rules/; RULES lists them by finding id, in the order of the alphabet.

The module of a rule is its id with underscores. Its docstring is its documentation page, and it
defines `ID`, `EFFORT` and `evaluate(run)`.
"""

from pkgutil import iter_modules

RULES: tuple[str, ...] = tuple(
    sorted(module.name.replace("_", "-") for module in iter_modules([f"{__path__[0]}/rules"]))
)
