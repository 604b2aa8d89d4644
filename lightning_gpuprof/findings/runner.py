"""Evaluates the rules over a run's results and ranks what they find."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from math import hypot
from typing import Protocol, cast

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings import RULES
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Range, Severity
from lightning_gpuprof.findings.places import with_lines
from lightning_gpuprof.findings.ranking import ranked
from lightning_gpuprof.findings.told_once import told_once

MIN_SAVING_FRAC = 0.005
"""A saving below this share of the step is left out: no run of usual length could show it."""

FEW_STEPS = 10
FEW_CONFIDENCE = 0.5
"""Of fewer steps than these a mean says little: a first batch, a cold cache or a neighbour may be
all of it. No finding is surer than that, nor critical: that word is for what a run has shown."""

Outcome = Finding | tuple[Finding, ...] | Abstained | None
"""What a rule returns: None is "looked, and all is well"."""


class Rule(Protocol):
    """What the module of a rule defines."""

    __doc__: str | None
    ID: str
    EFFORT: Effort

    def evaluate(self, run: RunResults) -> Outcome:
        """Judge the run."""
        ...


@dataclass(frozen=True)
class Findings:
    """What the rules said: findings by the saving to count on, and what was not judged."""

    found: tuple[Finding, ...]
    abstained: tuple[Abstained, ...]
    silent: tuple[str, ...]
    """Rules that looked and found nothing, or less than `MIN_SAVING_FRAC` of the step."""


def load_rule(finding_id: str) -> Rule:
    """Import the rule of a finding id."""
    module = import_module(f"lightning_gpuprof.findings.rules.{finding_id.replace('-', '_')}")
    return cast(Rule, module)


def evaluate_rules(run: RunResults, rules: Sequence[str] = RULES) -> Findings:
    """Evaluate the rules and rank their findings by what can be counted on (`ranking.py`).

    A finding that claims no time (`saving_ns` of 0 to 0, such as unused memory) is a fact: it is
    kept, and ranked after those that save time. Of two that tell of the same time one is kept
    (`told_once.py`).
    """
    found: list[Finding] = []
    abstained: list[Abstained] = []
    silent: list[str] = []
    for finding_id in rules:
        outcome = load_rule(finding_id).evaluate(run)
        if isinstance(outcome, Abstained):
            abstained.append(outcome)
            continue
        several = outcome if isinstance(outcome, tuple) else (outcome,)
        kept = [as_sure(one, run) for one in several if one is not None and _matters(one, run)]
        found.extend(kept)
        if not kept:
            silent.append(finding_id)
    found, back = told_once([with_lines(one, run) for one in found])
    return Findings(tuple(ranked(found)), (*abstained, *back), tuple(silent))


def as_sure(finding: Finding, run: RunResults) -> Finding:
    """Make a finding no surer than the run's length allows.

    Its saving is widened by what two equal runs of this length differ by. A model's bounds say
    what the change does; whoever tries it compares two runs, and these differ without any change.
    The two errors are independent, so their squares add up. The severity stays, and so does
    the middle, unless a step would get shorter than nothing. Where steps are few, both severity and
    confidence are limited, but for what is no matter of time.
    """
    saving = finding.saving_ns
    half = hypot((saving.high - saving.low) / 2, run.step_noise_ns or 0)
    half = max((saving.high - saving.low) / 2, min(half, saving.middle))
    high = min(round(saving.middle + half), max(saving.high, run.step_ns or 0))
    wider = Range(low=round(saving.middle - half), high=high)
    few = len(run.steady_dur_ns) < FEW_STEPS
    if not few:
        return replace(finding, saving_ns=wider)
    critical = finding.severity is Severity.CRITICAL and finding.saving_ns.high > 0
    return replace(
        finding,
        saving_ns=wider,
        confidence=min(finding.confidence, FEW_CONFIDENCE),
        severity=Severity.WARNING if critical else finding.severity,
    )


def _matters(finding: Finding, run: RunResults) -> bool:
    if finding.saving_ns.high == 0 or not run.step_ns:
        return True
    return finding.saving_ns.middle >= MIN_SAVING_FRAC * run.step_ns
