"""Compares runs: what changed, whether it is sure, and whether they still compute the same."""

from dataclasses import dataclass
from pathlib import Path

from lightning_gpuprof.analysis.compare.change import Change
from lightning_gpuprof.analysis.compare.compare import Comparison, compare
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.findings.before_after import BeforeAfter
from lightning_gpuprof.findings.model import Finding
from lightning_gpuprof.records.files import written_whole
from lightning_gpuprof.report.build_comparison import (
    build_comparison,
    build_several,
    compared_figures,
    comparison_sentence,
    gone_findings,
    most_changed_phase,
    new_findings,
    several_sentence,
    values_same,
)
from lightning_gpuprof.report.document import Document, encode
from lightning_gpuprof.report.load import Report, load_report

TOLERANCE = 0.01
"""A hundredth: what another order of summation or TF32 may do to a loss early in training."""


@dataclass(frozen=True)
class RunComparison:
    """Two runs' reports and how they differ."""

    base: Report
    new: Report
    result: Comparison
    tolerance: float

    @property
    def sentence(self) -> str:
        """The answer in plain words, such as `faster: 18% less time per step (15-21%)`.

        If the models differ, it calls neither run faster: the cause would not be your change.
        """
        return comparison_sentence(self.result)

    @property
    def gone(self) -> tuple[Finding, ...]:
        """The base run's findings that are gone; none if the new run has no steps to judge."""
        return gone_findings(self.base, self.new)

    @property
    def appeared(self) -> tuple[Finding, ...]:
        """The new run's additional findings; none if the base run has no steps to judge."""
        return new_findings(self.base, self.new)

    @property
    def before_after(self) -> tuple[BeforeAfter, ...]:
        """The figures to look at before and after a change."""
        return compared_figures(self.base, self.new, self.result)

    @property
    def most_changed_phase(self) -> Change | None:
        """The phase that changed most; None if none did by enough, or by more than chance."""
        return most_changed_phase(self.base, self.new, self.result)

    @property
    def values_same(self) -> bool | None:
        """Whether all recorded values agree; None if no step has a value in both runs."""
        return values_same(self.result)

    def document(self) -> Document:
        """Return the document that `compare --json` prints."""
        return build_comparison(self.base, self.new, self.result, self.tolerance)


@dataclass(frozen=True)
class SeveralComparison:
    """Several runs compared with the same base, in the order given."""

    base: Report
    comparisons: tuple[RunComparison, ...]

    @property
    def sentence(self) -> str:
        """How many runs are faster, how many are slower, and how many are neither."""
        return several_sentence([comparison.result for comparison in self.comparisons])

    def document(self) -> Document:
        """Return the document that `compare --json` prints of several runs."""
        compared = [(comparison.new, comparison.result) for comparison in self.comparisons]
        return build_several(self.base, compared, self.comparisons[0].tolerance)


def compare_runs(base: str, new: str, *, tolerance: float = TOLERANCE) -> RunComparison:
    """Compare two runs.

    Args:
        base: Log dir of the run to compare with; `RUN@0-4000` for its steps 0 to 4,000 alone.
        new: Log dir of the run in question; `RUN@4200-` for its steps from 4,200 alone. It may be
            the same run.
        tolerance: How far recorded losses and tensors may differ, relative to their size.

    Returns:
        The answer as a `sentence`, findings that are `gone` or have `appeared`, and in `result`
        every figure of both runs: times in ns per step, memory in bytes.

    Raises:
        RecordError: A path holds no run that this package recorded, or none of the steps.
        ConfigError: A path with an `@` names no span of steps.
    """
    return compare_reports(
        load_report(base, analyse=True), load_report(new, analyse=True), tolerance
    )


def compare_several(base: str, *news: str, tolerance: float = TOLERANCE) -> SeveralComparison:
    """Compare several runs with the same base.

    Args:
        base: Log dir of the run to compare with.
        *news: Log dirs of the runs in question.
        tolerance: How far recorded losses and tensors may differ, relative to their size.

    Returns:
        For each run what `compare_runs` returns, in `comparisons`.

    Raises:
        ConfigError: There is no run to compare with the base.
        RecordError: A path holds no run that this package recorded.
    """
    if not news:
        raise ConfigError(
            f"compare_several({base!r}) has no run to compare with the base. "
            "Pass at least one more run."
        )
    loaded = load_report(base, analyse=True)
    comparisons = (
        compare_reports(loaded, load_report(new, analyse=True), tolerance) for new in news
    )
    return SeveralComparison(loaded, tuple(comparisons))


def compare_reports(base: Report, new: Report, tolerance: float) -> RunComparison:
    """Compare two runs whose reports are loaded."""
    result = compare(base.results, new.results, tolerance=tolerance)
    return RunComparison(base, new, result, tolerance)


def write_comparison(base: str, new: str, path: str) -> None:
    """Write the document of two log dirs for the tab, which has analysed their traces before."""
    comparison = compare_reports(load_report(base), load_report(new), TOLERANCE)
    with written_whole(path) as part:
        Path(part).write_bytes(encode(comparison.document()))
