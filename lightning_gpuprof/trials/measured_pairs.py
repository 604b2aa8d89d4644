"""Pairs of expected and measured steps, from trials of the changes that findings propose."""

from collections.abc import Iterator, Sequence

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.conformal import Pair, made_pair
from lightning_gpuprof.findings.calibrated import device_of, estimate_of
from lightning_gpuprof.findings.engine import evaluate_rules
from lightning_gpuprof.findings.model import Finding
from lightning_gpuprof.records.trials import FASTER, SAME, SLOWER, Trial

SOURCE = "try"


def measured_pairs(run: RunResults, trials: Sequence[Trial], date: str) -> Iterator[Pair]:
    """Yield a pair for every trial that measured the very change that a finding proposes.

    What was expected is the model's own estimate. A trial that is undecided, or that only shows
    the most that could be saved, gives no pair; one that measures the change of several findings
    gives that of the first.

    Args:
        run: The run by which the changes were chosen.
        trials: The trials, each of a single change.
        date: The day of the measurement.
    """
    findings = evaluate_rules(run).findings
    for trial in trials:
        finding = next((finding for finding in findings if _proposes(finding, trial)), None)
        estimate = None if finding is None else estimate_of(finding, run)
        if finding is None or estimate is None or trial.gain_frac is None or not _decided(trial):
            continue
        saved_ns = trial.gain_frac * estimate.step_ns
        yield made_pair(finding.id, SOURCE, date, device_of(run), estimate, saved_ns)


def _decided(trial: Trial) -> bool:
    is_measured = not trial.computed and not trial.ceiling
    return is_measured and trial.verdict in (FASTER, SLOWER, SAME)


def _proposes(finding: Finding, trial: Trial) -> bool:
    """Return whether a trial's change is the finding's; without a value it is switched on."""
    change = finding.trial.change if finding.trial is not None else None
    return change is not None and change.removesuffix("=True") == trial.name.removesuffix("=True")
