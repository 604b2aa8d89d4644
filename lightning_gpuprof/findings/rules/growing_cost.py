"""Something takes longer each time that it is done, and what trains beside it does not.

## What it measures
How long each validation, checkpoint, callback, logger, hook of the module and wait for data took,
in the steps that it came in or between epochs, and each phase but backward and optimizer step by
step: `first_ns` and `last_ns`, the medians of the first and last three times (or sixteenths of the
steps), `more_ns` from each time to the next, and `grown_ns`: what all took above the first, per
step. Each phase is also looked at by batch of its epoch: what is cleared at an epoch's end grows
and begins anew. `at_end_ns` is what it takes at that pace when the run has all steps or epochs that
the Trainer was asked for.

## Why it matters
What is never cleared is worked on anew each time: predictions that are scored, a history that is
plotted, joined or written. The first epochs hide it; the cost of the whole run grows with the
square of its length.

## What to do
Clear what was used, keep running sums in its place (the metrics of `torchmetrics` do), write only
the rows that are new, and give what must stay a bound.

## Thresholds
A rise must be one that equal times show in one case of a thousand, both by itself and by the pace
of the steps since the time before (backward pass and optimizer), by `MIN_RISE` at least, go on in
the second half, and leave each third of the times above the one before (`uneven/rising.py`).
`memory_growth.MIN_FRAC`: dispatch and measuring change by less. The saving is as `memory-growth`'s,
for it is the same with and without memory that was measured: from what growing has cost in this run
on average, against the very first time, a fifth less (docs/adr/0031), to what it costs by now,
which is what each further step pays and a longer run exceeds. Where memory grows with it,
`memory-growth` tells it, once, for the same phase. What begins anew with each epoch has its mean as
saving, and is left out where backward pass or optimizer rise with it: batches are sorted then. What
grows with the model's input, up to its square, is left out. Severity: the common scale
(`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.rising import Rising
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import around, exposed
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import (
    Abstained,
    Effort,
    Finding,
    Horizon,
    Range,
    Severity,
    When,
    Where,
)
from lightning_gpuprof.findings.rules import memory_growth
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration

ID = "growing-cost"
EFFORT = Effort(
    Horizon.QUICK,
    "what was used is cleared, or summed up",
    "what lies further back is no longer used",
)
EXPLAINS = memory_growth.EXPLAINS
MOST_OF = 0.5
"""A part with this share of what its phase grows by is what grows."""
MOST = 3
KEPT = "Each time works on all that was kept so far: "
PERHAPS = "If it works on what was kept so far (no line of it was seen, nor memory that grows): "
CLEARED = (
    "clear it once it is used, or keep running sums (as the metrics of torchmetrics do) in the "
    "place of every value."
)
BOUNDED = "keep running sums, give the list or table a bound, and write or draw only what is new."

EACH_EPOCH = (
    "work it out once, at the end of the epoch, or in one batch of many, or keep running sums (as "
    "the metrics of torchmetrics do)."
)
SOUGHT = (
    "A dataset that goes through all that came before to find its place takes longer with each "
    "batch: keep the iterator, or an index of where each sample begins."
)


def evaluate(run: RunResults) -> tuple[Finding, ...] | Abstained | None:
    """Return a finding for what grows most."""
    if run.step_ns is None:
        return Abstained(ID, "no step was recorded")
    leak = memory_growth.evaluate(run)
    told = set()
    if isinstance(leak, Finding) and leak.severity is not Severity.INFO:
        told = {where.phase for where in leak.where}
    least_ns = memory_growth.MIN_FRAC * run.step_ns
    found = [
        one
        for one in _one_for_each_phase(run.rising)
        if one.phase.value not in told and one.cost_ns >= least_ns
    ]
    return tuple(_finding(run, run.step_ns, one) for one in found[:MOST])


def _one_for_each_phase(rising: tuple[Rising, ...]) -> list[Rising]:
    """Return for each phase what grows in it: the part that is most of it, or the phase."""
    chosen: dict[Phase, Rising] = {}
    for one in rising:  # that of the greatest cost first
        first = chosen.setdefault(one.phase, one)
        if first.name is None and one.name and one.cost_ns >= MOST_OF * first.cost_ns:
            chosen[one.phase] = one
    return list(chosen.values())


def _finding(run: RunResults, step_ns: int, one: Rising) -> Finding:
    now_ns = round((one.last_ns - one.first_ns) * one.times / max(1, one.steps))
    low, high = around(one.cost_ns)
    if not one.each_epoch:  # a longer run does not make it more
        high = max(high, now_ns)
    if run.on_gpu and one.phase not in (Phase.VALIDATION, Phase.CHECKPOINT):
        low, high = (
            exposed(run, one.phase, one.cost_ns).low_ns,
            exposed(run, one.phase, high).high_ns,
        )
    saving = Range(low=low, high=high)
    what = one.name or f"The phase {one.phase.value}"
    each_step = one.times == one.steps
    often = f"in {one.steps:,} steps" if each_step else f"after {one.times} times"
    if one.each_epoch:
        often = "at the end of each epoch, and begins anew with the next"
    evidence: dict[str, int | float] = {
        "first_ns": one.first_ns,
        "last_ns": one.last_ns,
        "more_ns": one.more_ns,
        "times_count": one.times,
        "grown_ns": one.cost_ns,
        "step_ns": step_ns,
    }
    title = f"{what} takes longer each time: {duration(one.first_ns)} at first, "
    title += f"{duration(one.last_ns)} {often}"
    at_end_ns = _at_end(run, one)
    if at_end_ns is not None:
        evidence["at_end_ns"] = at_end_ns
        title += f"; at this pace {duration(at_end_ns)} at the end of training"
    line = memory_growth.keeping(run, [one.phase])
    kept = line is not None or run.memory_growth is not None
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=title,
        advice=_advice(one, kept=kept),
        evidence=evidence,
        saving_ns=saving,
        confidence=0.9 if kept else 0.5,
        where=(*memory_growth.place(line), Where(phase=one.phase.value, name=one.name)),
        change=_change(one),
        when=When.ALSO_BETWEEN,
        explains=EXPLAINS,
    )


def _advice(one: Rising, *, kept: bool) -> str:
    if one.each_epoch and one.phase is Phase.DATA_WAIT:
        return SOUGHT
    what = CLEARED if one.phase is Phase.VALIDATION else BOUNDED
    return (KEPT if kept else PERHAPS) + (EACH_EPOCH if one.each_epoch else what)


def _change(one: Rising) -> str | None:
    if one.each_epoch and one.phase is Phase.DATA_WAIT:
        return None
    if one.each_epoch:
        return "def on_train_epoch_end(self): ...  # once, on what the epoch has kept"
    if one.phase is Phase.VALIDATION:
        return "self.outputs.clear()  # what was collected, at the end of on_validation_epoch_end"
    if one.phase in (Phase.CHECKPOINT, Phase.DATA_WAIT):
        return None
    return "self.items = collections.deque(maxlen=1000)  # in place of a list without a bound"


def _at_end(run: RunResults, one: Rising) -> int | None:
    """Return what one time will take when training ends; None where that is not known, or now."""
    trainer, steps = run.start.trainer, run.steps
    if one.each_epoch or steps is None or steps.resumed or run.status == "finished":
        return None
    done: list[float] = []
    if (most := trainer.get("max_steps") or 0) > 0:
        if run.start.model.get("automatic_optimization") is False:
            return None  # each step of each optimizer counts
        done.append(steps.ran / (most * trainer.get("accumulate_grad_batches", 1)))
    if (most := trainer.get("max_epochs") or 0) > 0:
        if steps.epochs is None or steps.epochs < 2:
            return None  # how long an epoch is will be seen at the first one's end
        done.append((steps.epochs - 0.5) / most)  # somewhere in the last one
    if not done or max(done) >= 1:
        return None
    return round(one.last_ns + one.more_ns * one.times * (1 / max(done) - 1))
