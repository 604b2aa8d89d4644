"""The forward pass computes in every step what is the same in every step.

## What it measures
`constant_ns`: host time per step of torch functions, between a batch's start and its backward pass,
that were given neither the batch nor weights nor random numbers (`torch.arange`, masks, grids,
sines, a model's buffers), and whose results were the same in two of the run's first batches. Where
the program's function calls no others, reads no values and is given no lists or objects, all the
time that samples saw in its lines: the Python that goes with them, too.

## Why it matters
Positions, masks, grids, windows and filters depend on sizes alone. Made anew they cost their
computing, and on a GPU a copy and several launches, in every step.

## What to do
Compute it once in `__init__` and keep it as a buffer (`register_buffer(..., persistent=False)`), or
keep it by size (`functools.lru_cache`).

## Thresholds
Results count as the same where sizes and sums are. Only what is made on the CPU is compared: on a
GPU that would make the host wait, and there the same functions count. What a batch changes in place
(`num_batches_tracked`, running averages) is no constant, nor what is made of it. `MIN_FRAC`: nearly
every model makes a small range or a mask. A fifth less goes with it at least, `MOST` times its own
time at most (docs/adr/0031), and up to `CALL_NS` for each call from Python. Watched functions are
slower, so its time is no more than samples of its lines say (`findings/looked.py`). By samples it
is the share's interval (`run/host_lines.py`) of the forward pass, a fifth more or less, where that
is more. A list that is filled in Python and made a tensor at the end is in such a function most of
its time, and in one of torch's at the end alone. Severity: the common scale (`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.host_lines import host_lines
from lightning_gpuprof.analysis.run.line_times import LEAST_COUNT
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import around
from lightning_gpuprof.findings.grade import by_host, grade
from lightning_gpuprof.findings.looked import looked, unwatched_ns
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Range
from lightning_gpuprof.findings.places import in_forward
from lightning_gpuprof.records.function_calls import ConstantWork, FunctionNotes
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent

ID = "recomputed-constant"
EFFORT = Effort(Horizon.QUICK, "a buffer made once", "none where sizes stay the same")
MIN_FRAC = 0.01
CALL_NS = 5_000
MOST = 1.75


@looked(ID)
def evaluate(run: RunResults, step_ns: int, seen: FunctionNotes) -> tuple[Finding, ...]:
    """Return a finding for each function that computes what does not change."""
    found = (
        (one, unwatched_ns(run, one.taken_ns, one.places), _seen_in(run, one))
        for one in seen.constants
    )
    least_ns = MIN_FRAC * step_ns
    return tuple(
        _finding(run, step_ns, one, taken_ns, sampled)
        for one, taken_ns, sampled in found
        if max(taken_ns, sampled.low) >= least_ns
    )


def _seen_in(run: RunResults, one: ConstantWork) -> Range:
    """Return between what and what samples of the function's lines say; nothing where none do."""
    lines, forward = host_lines(run.notes), run.per_step(Phase.FORWARD)
    if not one.alone or lines is None or forward is None:
        return Range(low=0, high=0)
    place = one.places[0]
    count = sum(
        each.count
        for each in lines.of(Phase.FORWARD)
        if (each.file, each.function) == (place.file, place.function)
    )
    if count < LEAST_COUNT:
        return Range(low=0, high=0)
    low, high = lines.interval(count, Phase.FORWARD)
    return Range(low=round(low * forward.mean_ns), high=round(high * forward.mean_ns))


def _finding(
    run: RunResults, step_ns: int, one: ConstantWork, taken_ns: int, sampled: Range
) -> Finding:
    cost_ns = max(taken_ns, round(sampled.middle))
    low = around(max(taken_ns, sampled.low))[0]
    high = max(round(MOST * taken_ns) + CALL_NS * one.calls, around(sampled.high)[1])
    saving = by_host(low, high, step_ns, unsure=run.on_gpu)
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"{one.places[0].function} computes the same values in every step, from neither the "
        f"batch nor the weights: {duration(cost_ns)} ({percent(cost_ns / step_ns)})",
        advice="Compute it once, in __init__, and keep it as a buffer; if it depends on a size, "
        "keep one for each size.",
        evidence={
            "constant_ns": cost_ns,
            "operators_ns": taken_ns,
            "calls_count": one.calls,
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.8,
        where=in_forward(one.places),
        change='self.register_buffer("name", values, persistent=False)  # in __init__',
    )
