"""The report's document as a view of the tab."""

from collections.abc import Sequence
from typing import Any

from lightning_gpuprof.views.tab.loaded_run import LoadedRun
from lightning_gpuprof.views.tab.query import Query

MOST_RANKS = 32
"""Lanes that fit a page; of more ranks than these the tab shows those that others wait for."""


def report_view(run: LoadedRun, query: Query) -> dict[str, Any]:
    """Return the document that `lightning-gpuprof report --json` prints, of many ranks some."""
    document = run.report(query)
    return {**document, "ranks": ranks_to_show(document["ranks"])}


def ranks_to_show(ranks: Sequence[dict[str, Any]], most: int = MOST_RANKS) -> list[dict[str, Any]]:
    """Return the lowest rank and those that wait least for others, in their order.

    >>> rows = [{"rank": rank, "waited_ns": 9 - rank} for rank in range(9)]
    >>> [row["rank"] for row in ranks_to_show(rows, 3)]
    [0, 7, 8]
    """
    if len(ranks) <= most:
        return list(ranks)
    first, *others = ranks
    others.sort(key=lambda row: (row["waited_ns"] is None, row["waited_ns"]))
    return [first, *sorted(others[: most - 1], key=lambda row: int(row["rank"]))]
