"""Compares runs: what changed, whether it is sure, and whether they still compute the same."""

import math
from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from lightning_gpuprof.analysis.compare.bootstrap import Interval
from lightning_gpuprof.analysis.compare.compare import Change, Comparison, Verdict, compare
from lightning_gpuprof.findings.before_after import before_after
from lightning_gpuprof.findings.model import Finding
from lightning_gpuprof.records.files import written_whole
from lightning_gpuprof.views.documents.report import Report, load_report

SCHEMA_VERSION = 1
TOP = 20
TOLERANCE = 0.01
"""A hundredth: what another order of summation or TF32 may do to a loss early in training."""
APART = 0.01
"""Where the whole fit changed by so much more or less of its time than a step, both are said."""
MIN_SHARE = 0.005
"""Phases and operators that changed by less than this share of the step are left out."""


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
        """The answer in plain words, such as `faster: 18% less time per step (15-21%)`.

        Of two models it does not say that one is faster, as if a change had done it.
        """
        said, other = _said(self.result), self.result.other_model
        if not other:
            return said
        models = [f"{one.name} {_number(one.base)} -> {_number(one.new)}" for one in other]
        said = said.removeprefix("faster: ").removeprefix("slower: ")
        return f"another model ({', '.join(models)}): {said}"

    @property
    def before_after(self) -> list[dict[str, Any]]:
        """The figures to look at before and after a change, as rows of the document."""
        sides = (self.base.results, self.new.results)
        old, now = (run.batch_size or 1.0 if self.result.per_sample else 1.0 for run in sides)
        rows = before_after(*sides, self.result.values, scale=(old, now))
        return [
            {
                **asdict(row),
                "label": row.label,
                "diff": row.new - row.base,
            }
            for row in rows
        ]

    @property
    def least_ns(self) -> float:
        """The change from which on a phase or operator is worth a row."""
        return MIN_SHARE * (self.result.steps.mean_ns.base or 0.0)

    def payload(self) -> dict[str, Any]:
        """Return the `compare --json` document of docs/json.md; null was not measured."""
        result, change, whole = self.result, self.result.change, self.result.fit_change
        clocks = ["device" if by_device else "host" for by_device in result.by_device]
        return {
            "schema_version": SCHEMA_VERSION,
            "base": {"path": self.base.run, "steps": result.base_steps, "clock": clocks[0]},
            "new": {"path": self.new.run, "steps": result.new_steps, "clock": clocks[1]},
            "verdict": result.verdict.value,
            "same_model": not result.other_model,
            "sentence": self.sentence,
            "change_frac": change and asdict(change),
            "fit_change_frac": whole and asdict(whole),
            "per_sample": result.per_sample,
            "before_after": self.before_after,
            "traced_steps": None if result.traced_steps is None else list(result.traced_steps),
            **{
                name: [{**vars(one), "diff": one.diff} for one in rows]
                for name, rows in (
                    ("steps", result.steps),
                    ("phases", result.phases),
                    ("between_epochs", result.between),
                    ("operators", result.operators[:TOP]),
                    ("kernels", result.kernels[:TOP]),
                    ("memory", result.memory or ()),
                )
            },
            **{
                name: [{"id": f.id, "severity": f.severity.value, "title": f.title} for f in some]
                for name, some in (("findings_gone", self.gone), ("findings_new", self.appeared))
            },
            "values": [{**_finite(asdict(one)), "same": one.same} for one in result.values],
            "tolerance": self.tolerance,
            "differs": [asdict(one) for one in result.differs],
        }


def compared(base: Report, new: Report, tolerance: float) -> RunComparison:
    """Compare two runs that are loaded."""
    result = compare(base.results, new.results, tolerance=tolerance)
    return RunComparison(base, new, result, tolerance)


def write_comparison(base: str, new: str, path: str) -> None:
    """Write the document of two log dirs, whose traces are analysed already: for the tab."""
    found = compared(load_report(base), load_report(new), TOLERANCE)
    with written_whole(path) as part:
        Path(part).write_bytes(msgspec.json.encode(found.payload()))


def changed(rows: Sequence[Change], least: float) -> list[Change]:
    """Return the figures that changed by so much at least."""
    return [row for row in rows if abs(row.shift) >= least]


def _said(result: Comparison) -> str:
    """Say how the whole fit changed, and where a step by itself did not do so, that too."""
    fit, step = result.fit_change, result.change
    apart = fit is not None and step is not None and abs(fit.middle - step.middle) >= APART
    said = _change_said(result, fit, result.verdict, " of the whole fit" * apart)
    if apart:
        said += f"; steps alone: {_change_said(result, step, result.step_verdict, '')}"
    return said


def _change_said(result: Comparison, change: Interval | None, verdict: Verdict, of: str) -> str:
    steps = min(result.base_steps, result.new_steps)
    per = ("per sample" if result.per_sample else "per step") + of
    if change is None:
        return f"too few steps to compare: {result.base_steps} and {result.new_steps}"
    if verdict is Verdict.NO_DIFFERENCE:
        return (
            f"no difference{' per sample' * result.per_sample}{of} that {steps} steps could show "
            f"({change.low * 100:+.1f}% to {change.high * 100:+.1f}% in time)"
        )
    digits = 0 if abs(change.middle) >= 0.10 else 1
    ends = sorted((abs(change.low), abs(change.high)))
    middle, low, high = (f"{one * 100:.{digits}f}" for one in (abs(change.middle), *ends))
    word, less, times = "slow", "more", 1 + change.middle
    if verdict is Verdict.FASTER:
        word, less, times = "fast", "less", 1 / (1 + change.middle)
    return f"{word}er: {middle}% {less} time {per} ({low}-{high}%), {times:.3g} times as {word}"


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    """Replace NaN and infinity, which JSON has no words for, by null."""
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in row.items()
    }


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
    if finding.id not in several or not finding.places:
        return (finding.id,)
    first = finding.places[0]
    return finding.id, first.phase, first.name, first.source
