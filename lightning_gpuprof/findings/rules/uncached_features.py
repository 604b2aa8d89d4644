"""A frozen network computes for the same samples the same again, in every epoch.

## What it measures
`frozen_ns`: host time of a module of which no weight is trained, the quickest call of three batches
in the first epoch; and `again_frac`: the share of these batches' samples that it was given once
more in the second epoch, unchanged.

## Why it matters
What a frozen backbone, teacher or text encoder gives for a sample follows from the sample alone:
after the first epoch each of its forward passes repeats an earlier one.

## What to do
Run it over the dataset once, keep what it gives (`feature_bytes` a sample), and train on that.

## Thresholds
`MOST_AGAIN`: samples that random augmentation changes do not come again; a shuffled epoch that
drops its last batch misses a few that do. A module with dropout or batch statistics in training
mode, that is given what trained weights made, or whose own weights change (a target network) is not
told. `MIN_FRAC`: below it a cache is not worth keeping. Up to a fifth more or less goes with it
(docs/adr/0031); on a GPU the host may be ahead: there the low bound is 0. Severity: the common
scale (`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import around
from lightning_gpuprof.findings.grade import WARNING_FRAC, by_host, grade
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Where
from lightning_gpuprof.findings.places import in_forward
from lightning_gpuprof.records.module_calls import FrozenModule, frozen_modules
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent, size

ID = "uncached-features"
EFFORT = Effort(Horizon.MEDIUM, "a pass over the dataset, and a file", "no augmentation later on")
MOST_AGAIN = 0.9
MIN_FRAC = WARNING_FRAC
CHANGE = """with torch.no_grad():  # once, before training
    features = torch.cat([self.{name}(samples) for samples, *_ in loader])  # unshuffled"""


def evaluate(run: RunResults) -> tuple[Finding, ...] | Abstained:
    """Return a finding for each frozen module that is given the same again."""
    if run.step_ns is None:
        return Abstained(ID, "no step was recorded")
    step_ns = run.step_ns
    return tuple(
        _finding(run, step_ns, one)
        for one in frozen_modules(run.notes)
        if one.seen_again >= MOST_AGAIN * one.samples and one.taken_ns >= MIN_FRAC * step_ns
    )


def _finding(run: RunResults, step_ns: int, one: FrozenModule) -> Finding:
    saving = by_host(*around(one.taken_ns), step_ns, unsure=run.on_gpu)
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"self.{one.name} is frozen and is given the same samples in each epoch: "
        f"{duration(one.taken_ns)} of each step ({percent(one.taken_ns / step_ns)})",
        advice=f"Keep what it gives for each sample ({size(one.out_bytes)}), and train on that. "
        "Samples that are augmented at random later on need it again.",
        evidence={
            "frozen_ns": one.taken_ns,
            "again_frac": one.seen_again / one.samples,
            "feature_bytes": one.out_bytes,
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.5 if run.on_gpu else 0.9,
        where=(
            *in_forward([one.place] if one.place else []),
            Where(phase=Phase.FORWARD.value, name=one.name),
        ),
        change=CHANGE.format(name=one.name),
    )
