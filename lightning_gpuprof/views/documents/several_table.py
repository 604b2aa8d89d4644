"""The table of several runs as texts: the console and Markdown lay the same cells out."""

from lightning_gpuprof.units import duration
from lightning_gpuprof.views.documents.compare_several import Row, SeveralComparison
from lightning_gpuprof.views.documents.compare_words import shown

COLUMNS = (
    "run",
    "median step",
    "samples/s",
    "against the base",
    "changed most",
    "peak memory",
    "findings",
    "losses",
)


def cells(found: SeveralComparison) -> list[tuple[str, ...]]:
    """Return the rows of the table but for the first column, which names the run."""
    return [_cells(row) for row in found.rows]


def _cells(row: Row) -> tuple[str, ...]:
    return (
        shown("_ns", row.median_ns),
        "-" if row.samples_per_s is None else _rate(row.samples_per_s),
        "" if row.sentence is None else row.sentence,
        _phase(row),
        shown("_bytes", row.peak_reserved_bytes),
        _findings(row),
        _values(row),
    )


def _rate(samples_per_s: float) -> str:
    """Return a rate with three digits, or all that are whole.

    >>> _rate(17_676.9), _rate(4.567)
    ('17,677', '4.57')
    """
    return f"{samples_per_s:,.0f}" if samples_per_s >= 100 else f"{samples_per_s:.3g}"


def _phase(row: Row) -> str:
    if row.sentence is None:
        return ""
    if row.phase is None or row.phase_diff_ns is None:
        return "-"
    return f"{row.phase} {'+' if row.phase_diff_ns > 0 else ''}{duration(row.phase_diff_ns)}"


def _findings(row: Row) -> str:
    return "" if row.sentence is None else f"{row.findings_gone} gone, {row.findings_new} new"


def _values(row: Row) -> str:
    if row.sentence is None:
        return ""
    return {None: "not compared", True: "same", False: "differ"}[row.values_same]
