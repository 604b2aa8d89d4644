"""What a run's findings predicted, beside what another run measured after the change."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from lightning_gpuprof.analysis.compare.compare import Comparison
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.model import Finding, When
from lightning_gpuprof.report.change_tables import large_changes
from lightning_gpuprof.report.document import Column, Interval, Section, Table, Text, Value
from lightning_gpuprof.report.labels import phase_label
from lightning_gpuprof.units import duration, percent

OTHER_LENGTH = 2
"""Runs of which one has this many times the other's steps may differ by their length alone."""

Outcome = Literal["held", "saved more", "saved less", "not shown"]


@dataclass(frozen=True)
class Prediction:
    """What findings that are gone had predicted, and what was measured; in ns per step.

    Args:
        names: Ids of the findings, whose changes were measured together.
        predicted: The sum of their savings.
        measured: What the mean step takes less, 19 times in 20; below 0 if it takes longer.
        reasons: What else differs between the runs and may explain a difference.
        unpredicted: Phases that changed although no finding is about them.
    """

    names: tuple[str, ...]
    predicted: Interval
    measured: Interval
    reasons: tuple[str, ...]
    unpredicted: tuple[str, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """Whether the measured saving meets the predicted interval, if anything was saved for sure.

        >>> Prediction((), Interval(1, 3), Interval(2, 5), ()).outcome
        'held'
        >>> Prediction((), Interval(1, 3), Interval(4, 5), ()).outcome
        'saved more'
        >>> Prediction((), Interval(1, 3), Interval(-1, 5), ()).outcome
        'not shown'
        """
        if self.measured.low <= 0 < self.measured.high and self.predicted.low > 0:
            return "not shown"
        if self.measured.low > self.predicted.high:
            return "saved more"
        return "saved less" if self.measured.high < self.predicted.low else "held"


def checked_prediction(
    base: RunResults, new: RunResults, result: Comparison, gone: Sequence[Finding]
) -> Prediction | None:
    """Return what findings that are gone predicted together; None if that cannot be checked.

    Savings in steps are compared with the steady step, and with the whole fit if one of them lies
    elsewhere. Nothing can be checked if the models or the batch sizes differ.
    """
    if result.per_sample or result.other_model:
        return None
    change, base_ns = result.fit_change, result.steps.whole_fit_ns.base
    if all(finding.when is When.IN_STEPS for finding in gone):
        change, base_ns = result.change, result.steps.mean_ns.base
    claiming = [finding for finding in gone if finding.saving_ns.high]
    if not claiming or change is None or not base_ns:
        return None
    return Prediction(
        names=tuple(finding.id for finding in claiming),
        predicted=Interval(
            sum(finding.saving_ns.low for finding in claiming),
            sum(finding.saving_ns.high for finding in claiming),
        ),
        measured=Interval(round(-change.high * base_ns), round(-change.low * base_ns)),
        reasons=_reasons(base, new, result),
        unpredicted=_other_phases(result, claiming),
    )


def _reasons(base: RunResults, new: RunResults, result: Comparison) -> tuple[str, ...]:
    reasons = []
    waits = [run.facts.core_wait for run in (base, new)]
    if base.facts.busy_frac or new.facts.busy_frac:
        shares = [0.0 if wait is None else wait.frac for wait in waits]
        of_base, of_new = map(percent, shares)
        reasons.append(
            f"the machine was busy: training waited {of_base} of its time for a core before the "
            f"change and {of_new} after it"
        )
    steps = sorted((result.base_steps, result.new_steps))
    if steps[1] >= OTHER_LENGTH * steps[0]:
        reasons.append(
            f"the runs differ in length: {result.base_steps:,} and {result.new_steps:,} steps"
        )
    machine = [fact.name for fact in result.differs if fact.kind in ("machine", "versions")]
    if machine:
        reasons.append(f"the runs differ in {', '.join(machine)}")
    return tuple(reasons)


def _other_phases(result: Comparison, findings: Sequence[Finding]) -> tuple[str, ...]:
    """Say how phases changed, beyond noise, that no finding is about; the largest change first."""
    expected = {place.phase for finding in findings for place in finding.places}
    if None in expected:
        return ()
    sure = [change for change in large_changes(result.phases, result) if change.sure]
    changes = sorted(sure, key=lambda change: -abs(change.shift))
    return tuple(
        f"{phase_label(change.name).lower()} {duration(abs(change.shift))} "
        f"{'less' if change.shift < 0 else 'more'}"
        for change in changes
        if change.name not in expected
    )[:3]


def prediction_section(prediction: Prediction) -> Section:
    """Return the prediction as a table; the reasons follow if it did not hold."""
    columns = (
        Column("name", "Finding", "code"),
        Column("predicted", "Predicted", "ns"),
        Column("measured", "Measured", "ns"),
        Column("outcome", "Prediction", "text"),
    )
    row: dict[str, Value] = {
        "name": ", ".join(prediction.names),
        "predicted": prediction.predicted,
        "measured": prediction.measured,
        "outcome": prediction.outcome,
    }
    body: list[Table | Text] = [Table("predictions", columns, (row,))]
    if prediction.unpredicted:
        changes = ", ".join(prediction.unpredicted)
        body.append(Text((f"Not predicted, and part of what was measured: {changes} per step.",)))
    if prediction.reasons and prediction.outcome != "held":
        reasons = "; ".join(prediction.reasons)
        body.append(Text((f"What else may explain the difference: {reasons}.",)))
    note = "time saved per step by all changes together"
    return Section("predictions", "Predicted and measured", "first", tuple(body), note=note)
