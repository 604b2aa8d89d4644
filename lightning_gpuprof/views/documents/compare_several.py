"""Compares several runs with the same base: each by itself, and all in one table."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from lightning_gpuprof.analysis.compare.compare import Change, Verdict
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.units import duration
from lightning_gpuprof.views.documents.compare import (
    SCHEMA_VERSION,
    TOLERANCE,
    RunComparison,
    compared,
)
from lightning_gpuprof.views.documents.compare_words import changed, least_ns, shown
from lightning_gpuprof.views.documents.report import Report, load_report

_VERDICTS = {
    Verdict.FASTER: "faster than the base",
    Verdict.SLOWER: "slower than the base",
    Verdict.NO_DIFFERENCE: "without a difference that the steps could show",
    Verdict.UNKNOWN: "without enough steps to compare",
}


@dataclass(frozen=True)
class Row:
    """One run of the table; what is None was not measured, or is the base's own row."""

    run: str
    median_ns: int | None
    """The median step, whatever its batch size."""
    samples_per_s: float | None
    peak_reserved_bytes: int | None
    sentence: str | None = None
    """By how much it is faster or slower than the base, with the interval."""
    phase: str | None = None
    """The phase that changed most, if by half a percent of the base's step."""
    phase_diff_ns: float | None = None
    """By so much per step, or per sample where batch sizes differ."""
    findings_gone: int | None = None
    findings_new: int | None = None
    values_same: bool | None = None
    """Whether recorded losses and tensors are the same; None where none could be compared."""


@dataclass(frozen=True)
class SeveralComparison:
    """Runs that were each compared with one base, in the order given."""

    base: Report
    comparisons: tuple[RunComparison, ...]

    @property
    def rows(self) -> tuple[Row, ...]:
        """The table: the base first."""
        return (Row(**_own(self.base)), *(_row(one) for one in self.comparisons))

    @property
    def sentence(self) -> str:
        """How many runs are faster, slower and neither."""
        return f"Of {len(self.comparisons)} runs {', '.join(_counts(self.comparisons))}."

    @property
    def ends(self) -> tuple[int, int] | None:
        """The numbers of the rows with the most and the fewest samples per second.

        None where that is not known of every run.
        """
        rates = [row.samples_per_s for row in self.rows]
        known = [rate for rate in rates if rate is not None]
        if len(known) < len(rates):
            return None
        return known.index(max(known)), known.index(min(known))

    def payload(self) -> dict[str, Any]:
        """Return the `compare --json` document of several runs (docs/json.md)."""
        return {
            "schema_version": SCHEMA_VERSION,
            "base": self.base.run,
            "sentence": self.sentence,
            "table": [asdict(row) for row in self.rows],
            "comparisons": [one.payload() for one in self.comparisons],
        }


def compare_several(base: str, *news: str, tolerance: float = TOLERANCE) -> SeveralComparison:
    """Compare several runs with the same base.

    Args:
        base: Log dir of the run to compare with.
        *news: Log dirs of the runs in question.
        tolerance: How far recorded losses and tensors may differ, relative to their size.

    Returns:
        Each run's comparison with the base, as of `compare_runs`, in `comparisons`, and one row
        for each in `rows`: times in ns, memory in bytes.

    Raises:
        ConfigError: No run to compare with the base.
        RecordError: One of them is no run of ours.
    """
    if not news:
        raise ConfigError(
            f"compare_several({base!r}) has nothing to compare with it. Pass one more run or more."
        )
    loaded = load_report(base, analyse=True)
    found = (compared(loaded, load_report(new, analyse=True), tolerance) for new in news)
    return SeveralComparison(loaded, tuple(found))


def _own(report: Report) -> dict[str, Any]:
    results = report.results
    return {
        "run": report.run,
        "median_ns": results.step_dur.p50_ns if results.step_dur else None,
        "samples_per_s": results.samples_per_s,
        "peak_reserved_bytes": results.memory.peak_reserved_bytes if results.memory else None,
    }


def _row(one: RunComparison) -> Row:
    phase = _most_changed(one)
    same = [value.same for value in one.result.values if value.same is not None]
    return Row(
        **_own(one.new),
        sentence=one.sentence,
        phase=phase.name if phase else None,
        phase_diff_ns=(phase.new or 0) - (phase.base or 0) if phase else None,
        findings_gone=len(one.gone),
        findings_new=len(one.appeared),
        values_same=all(same) if same else None,
    )


def _most_changed(one: RunComparison) -> Change | None:
    if one.base.results.step_ns is None or one.new.results.step_ns is None:
        return None
    # A phase that one side has not is one that took no time there.
    rows = changed(one.result.phases, least_ns(one))
    return max(rows, key=lambda row: abs((row.new or 0) - (row.base or 0)), default=None)


def _counts(comparisons: tuple[RunComparison, ...]) -> Iterator[str]:
    same_model = [one for one in comparisons if not one.result.other_model]
    for verdict, said in _VERDICTS.items():
        yield from _counted(sum(one.result.verdict is verdict for one in same_model), said)
    yield from _counted(len(comparisons) - len(same_model), "of another model")


def _counted(count: int, said: str) -> Iterator[str]:
    if count:
        yield f"{count} {'is' if count == 1 else 'are'} {said}"


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
