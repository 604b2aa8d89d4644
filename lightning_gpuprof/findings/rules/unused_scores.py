"""A linear layer computes for all places what is used of a few.

## What it measures
`kept_frac`: the share of a linear layer's results that is used afterwards: picked by an index
(`logits[:, -1]`, `logits[mask]`), or by the targets that `cross_entropy` does not leave out
(`ignore_index`); and `layer_ns`, `after_ns`: host time per step of the layer and of what is done to
all of its results, forward. From two of the run's first batches.

## Why it matters
A last layer over a large vocabulary is often most of a model's computing and memory. Where one
place in seven is masked, six sevenths of it, forward and backward, go to scores that no loss sees.

## What to do
Pick the places first, then call the layer and the loss for them: `head(hidden[mask])`. The loss
stays the same.

## Thresholds
Nothing is said where all of the results are used as well, or more than half of them (`MOST_KEPT`,
`looks/scores.py`): picking costs something, too. `MIN_FRAC`: below it nobody would change a model.
What goes with the unused share is `TRAINED` times the time of the layer and of what follows
(`ALONE` without gradients), from times of both forms (docs/adr/0031). Targets are read
on the CPU alone: on a GPU that would make the host wait; there an index is told, with a low bound
of 0, and picking by a mask makes the host wait for the device once.
Severity: the common scale (`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.grade import by_host, grade
from lightning_gpuprof.findings.looked import looked
from lightning_gpuprof.findings.model import Effort, Finding, Horizon
from lightning_gpuprof.findings.places import in_forward
from lightning_gpuprof.records.function_calls import FunctionNotes, UnusedScores
from lightning_gpuprof.units import duration, percent

ID = "unused-scores"
EFFORT = Effort(Horizon.QUICK, "an index moves before a layer", "none")
MIN_FRAC = 0.01
TRAINED, ALONE = (1.5, 3.5), (0.8, 1.2)


@looked(ID)
def evaluate(run: RunResults, step_ns: int, seen: FunctionNotes) -> tuple[Finding, ...]:
    """Return a finding for each layer of whose results little is used."""
    return tuple(_finding(run, step_ns, one) for one in counted(seen, step_ns))


def counted(seen: FunctionNotes, step_ns: int) -> list[UnusedScores]:
    """Return the layers of whose results enough is unused to change a model."""
    return [one for one in seen.scores if _unused_ns(one) >= MIN_FRAC * step_ns]


def _unused_ns(one: UnusedScores) -> float:
    return (1 - one.kept_frac) * (one.layer_ns + one.after_ns)


def _finding(run: RunResults, step_ns: int, one: UnusedScores) -> Finding:
    low, high = TRAINED if one.trained else ALONE
    unused_ns = _unused_ns(one)
    saving = by_host(round(low * unused_ns), round(high * unused_ns), step_ns, unsure=run.on_gpu)
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"{percent(one.kept_frac)} of what a linear layer gives is used: for the rest go "
        f"{duration(unused_ns)} of the forward pass ({percent(unused_ns / step_ns)} of the step)"
        + (", and its backward pass" if one.trained else ""),
        advice="Pick the places that are used first, then call the layer, and the loss, for them, "
        "if nothing else reads the rest (a metric, a callback). The results stay the same.",
        evidence={
            "kept_frac": one.kept_frac,
            "layer_ns": one.layer_ns,
            "after_ns": one.after_ns,
            "numbers_count": one.numbers,
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.5 if run.on_gpu else 0.9,
        where=in_forward(one.places),
        change="layer(hidden[used])  # in place of layer(hidden)[used]; used: the last place, or "
        "where targets count",
    )
