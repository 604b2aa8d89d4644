"""The training step does much with the batch in which the model takes no part.

## What it measures
`data_ns`: host time per step of torch functions that one function of the program calls between a
batch's start and its backward pass, that were given no weights nor what was made with any, through
which no gradient goes back, and in which nothing takes part that was drawn at random: targets,
masks, matching, filters. From two of the run's first batches
(`watched_ns` there).

## Why it matters
It depends on samples alone, and so need not be done while the model waits for it.

## What to do
Where it depends on one sample at a time do it in the dataset, once before training where it is the
same each time, else in the loader's workers. What depends on the whole batch belongs into the
collate function. Or do it in one step of many, where it only steers or shows something.

## Thresholds
What a rule knows a cheaper form of (`brute-force-lookup`, `broadcast-pairs`, `repeated-operators`,
`one-hot-lookup`, `separable-filter`) is left to it. `MIN_FRAC`: a fifth of the step, as
`CRITICAL_FRAC` in `findings/grade.py`: some masks and targets are in every training step, and
cheap. The least saving is 0: what it takes elsewhere is not known. A fifth more than its own time
may go with it (docs/adr/0031). Being watched makes small functions slower (25 ms in a step of 23
with 5,000 of them, thirteenth unseen set): it is no more than samples of their lines say, which
nothing watches. On a GPU launches were timed, and what the device does in a moment may take a
worker long: nothing is proposed. Severity: the common scale (`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import around
from lightning_gpuprof.findings.grade import CRITICAL_FRAC, by_host, grade
from lightning_gpuprof.findings.looked import looked, unwatched_ns
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon
from lightning_gpuprof.findings.places import in_forward
from lightning_gpuprof.findings.rules.separable_filter import saved_of
from lightning_gpuprof.records.function_calls import (
    Broadcast,
    FunctionNotes,
    RepeatedWork,
    WorkOnData,
)
from lightning_gpuprof.records.lookups import Compared, OneHotLookup, OneHotSum
from lightning_gpuprof.records.windows import SeparableWindow
from lightning_gpuprof.units import duration, percent

ID = "work-on-data"
EFFORT = Effort(Horizon.MEDIUM, "the work is moved into the dataset", "none")
MIN_FRAC = CRITICAL_FRAC


@looked(ID)
def evaluate(run: RunResults, step_ns: int, seen: FunctionNotes) -> tuple[Finding, ...] | Abstained:
    """Return a finding for each function that works on the batch alone."""
    cheaper: tuple[
        Compared | Broadcast | RepeatedWork | OneHotLookup | OneHotSum | SeparableWindow, ...
    ] = (
        *seen.compared,
        *seen.broadcast,
        *seen.repeated,
        *seen.lookups,
        *seen.sums,
        *(one for one in seen.windows if saved_of(one)[0] > 0),
    )
    known = {(at.file, at.line) for one in cheaper for at in one.places}
    costs = ((one, unwatched_ns(run, one.taken_ns, one.places)) for one in seen.on_data)
    found = tuple(
        _finding(step_ns, one, cost_ns)
        for one, cost_ns in costs
        if cost_ns >= MIN_FRAC * step_ns and (one.places[0].file, one.places[0].line) not in known
    )
    if found and run.on_gpu:
        return Abstained(ID, "launches were timed, and how long the device is at it was not")
    return found


def _finding(step_ns: int, one: WorkOnData, cost_ns: int) -> Finding:
    saving = by_host(0, around(cost_ns)[1], step_ns, unsure=True)
    at = one.places[0]
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"{duration(cost_ns)} of each step ({percent(cost_ns / step_ns)}) goes to "
        f"torch functions of the batch alone in {at.function}: no weight takes part",
        advice=f"Above all {at.file}:{at.line}. Do it in the dataset: once, before training, where "
        "it is the same each time, else in workers; what depends on the whole batch in the "
        "collate function. What only steers or shows something, do seldom.",
        evidence={"data_ns": cost_ns, "watched_ns": one.taken_ns, "step_ns": step_ns},
        saving_ns=saving,
        confidence=0.7,
        where=in_forward(one.places),
    )
