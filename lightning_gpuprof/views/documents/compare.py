"""Compares two runs: what changed, whether it is sure, and whether they still compute the same."""

import math
from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import asdict, dataclass
from typing import Any

from lightning_gpuprof.analysis.compare.compare import Change, Comparison, Verdict, compare
from lightning_gpuprof.findings.model import Finding
from lightning_gpuprof.views.documents.report import Report, load_report

SCHEMA_VERSION = 1
TOP = 20
"""Operators and kernels listed: the largest changes."""


def compare_payload(
    *,
    base: str,
    new: str,
    result: Comparison,
    gone: Sequence[Finding],
    appeared: Sequence[Finding],
    sentence: str,
    tolerance: float,
) -> dict[str, Any]:
    """Return the document as JSON types; null says that a side was not measured."""
    change = result.change
    return {
        "schema_version": SCHEMA_VERSION,
        "base": {"path": base, "steps": result.base_steps, "clock": _clock(result.by_device[0])},
        "new": {"path": new, "steps": result.new_steps, "clock": _clock(result.by_device[1])},
        "verdict": result.verdict.value,
        "same_model": not result.other_model,
        "sentence": sentence,
        "change_frac": None
        if change is None
        else {"low": change.low, "middle": change.middle, "high": change.high},
        "per_sample": result.per_sample,
        "traced_steps": None if result.traced_steps is None else list(result.traced_steps),
        "steps": [_change(one) for one in result.steps],
        "phases": [_change(one) for one in result.phases],
        "operators": [_of_few(one) for one in result.operators[:TOP]],
        "kernels": [_of_few(one) for one in result.kernels[:TOP]],
        "memory": [_change(one) for one in result.memory],
        "findings_gone": [_finding(one) for one in gone],
        "findings_new": [_finding(one) for one in appeared],
        "values": [{**_finite(asdict(one)), "same": one.same} for one in result.values],
        "tolerance": tolerance,
        "differs": [asdict(one) for one in result.differs],
    }


def _clock(by_device: bool) -> str:
    return "device" if by_device else "host"


def _change(one: Change) -> dict[str, Any]:
    return {"name": one.name, "base": one.base, "new": one.new, "diff": one.diff}


def _of_few(one: Change) -> dict[str, Any]:
    return {**_change(one), "error": one.error, "shown": one.shown}


def _finding(finding: Finding) -> dict[str, Any]:
    return {"id": finding.id, "severity": finding.severity.value, "title": finding.title}


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    """Replace NaN and infinity, which JSON has no words for, by null."""
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in row.items()
    }


TOLERANCE = 0.01
"""A hundredth: what another order of summation or TF32 may do to a loss early in training."""

TIMES = 9
"""From ten times as long on, per cent are hard to read."""


@dataclass(frozen=True)
class RunComparison:
    """Two runs' reports and how they differ."""

    base: Report
    new: Report
    result: Comparison
    tolerance: float

    @property
    def gone(self) -> tuple[Finding, ...]:
        """Findings of the base run that the new one, with steps to judge, does not have."""
        return _only(self.base, self.new) if self.new.results.step_ns else ()

    @property
    def appeared(self) -> tuple[Finding, ...]:
        """Findings of the new run that the base one, with steps to judge, did not have."""
        return _only(self.new, self.base) if self.base.results.step_ns else ()

    @property
    def sentence(self) -> str:
        """The answer in plain words, such as `faster: 18% less time per step (15-21%)`."""
        return sentence(self.result)

    def payload(self) -> dict[str, Any]:
        """Return the `compare --json` document, as documented in docs/json.md."""
        return compare_payload(
            base=self.base.run,
            new=self.new.run,
            result=self.result,
            gone=self.gone,
            appeared=self.appeared,
            sentence=self.sentence,
            tolerance=self.tolerance,
        )


def compare_runs(base: str, new: str, *, tolerance: float = TOLERANCE) -> RunComparison:
    """Compare two runs.

    Args:
        base: Log dir of the run to compare with.
        new: Log dir of the run in question.
        tolerance: How far recorded losses and tensors may differ, relative to their size.

    Returns:
        The answer as a `sentence`, findings that are `gone` or have `appeared`, and in `result`
        every figure of both runs: times in ns per step, memory in bytes.

    Raises:
        RecordError: One of them is no run of ours.
    """
    return compared(load_report(base, analyse=True), load_report(new, analyse=True), tolerance)


def compared(base: Report, new: Report, tolerance: float) -> RunComparison:
    """Compare two runs that are loaded."""
    result = compare(base.results, new.results, tolerance=tolerance)
    return RunComparison(base, new, result, tolerance)


def sentence(result: Comparison) -> str:
    """Say what the steps show; of two models not that one is faster, as if a change had done it."""
    said = _said(result)
    if not result.other_model:
        return said
    models = [f"{one.name} {_number(one.base)} -> {_number(one.new)}" for one in result.other_model]
    said = said.removeprefix("faster: ").removeprefix("slower: ")
    return f"another model ({', '.join(models)}): {said}"


def _said(result: Comparison) -> str:
    change, steps = result.change, min(result.base_steps, result.new_steps)
    per = "per sample" if result.per_sample else "per step"
    if change is None:
        return f"too few steps to compare: {result.base_steps} and {result.new_steps}"
    if result.verdict is Verdict.NO_DIFFERENCE:
        return (
            f"no difference{' per sample' * result.per_sample} that {steps} steps could show "
            f"({change.low * 100:+.1f}% to {change.high * 100:+.1f}% in time)"
        )
    faster = result.verdict is Verdict.FASTER
    low, middle, high = (
        (-change.high, -change.middle, -change.low)
        if faster
        else (change.low, change.middle, change.high)
    )
    if middle >= TIMES:
        times = [f"{one + 1:,.3g}" for one in (middle, low, high)]
        return f"slower: {times[0]} times the time {per} ({times[1]}-{times[2]})"
    digits = 0 if middle >= 0.10 else 1
    return (
        f"{'faster' if faster else 'slower'}: {middle * 100:.{digits}f}% "
        f"{'less' if faster else 'more'} time {per} "
        f"({low * 100:.{digits}f}-{high * 100:.{digits}f}%)"
    )


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _only(one: Report, other: Report) -> tuple[Finding, ...]:
    several = {"slow-callback"}
    for report in (one, other):
        kinds = Counter(finding.id for finding in report.findings)
        several |= {kind for kind, count in kinds.items() if count > 1}
    there = {_key(finding, several) for finding in other.findings}
    return tuple(finding for finding in one.findings if _key(finding, several) not in there)


def _key(finding: Finding, several: Set[str]) -> tuple[str | None, ...]:
    """Return what makes a finding the same: its place too, where there are several of its kind.

    The line's text stands for its number, which any edit above it changes. Of a kind that has one
    finding the place is only where it is seen most, which may differ from run to run.
    """
    if finding.id not in several or not finding.where:
        return (finding.id,)
    first = finding.where[0]
    return finding.id, first.phase, first.name, first.source
