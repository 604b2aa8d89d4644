"""The version of an analysis' tables, and which analyses lack some of them."""

from collections.abc import Mapping
from typing import Any

ANALYSIS_VERSION = 6
"""Of an analysis' tables. Raise it when a table is added or changes its meaning: rules that need
it would find nothing in the analyses that are kept. Documents from before have none."""


def is_older(analysis: Mapping[str, Any], than: int = ANALYSIS_VERSION) -> bool:
    """Tell whether an analysis lacks tables that this version's rules may need.

    >>> is_older({"operators": []}), is_older({"analysis_version": ANALYSIS_VERSION + 1})
    (True, False)
    """
    version = analysis.get("analysis_version")
    return not isinstance(version, int) or version < than
