"""Operators take ten times as long on the CPU as the same calls usually do there.

## Symptom
A matrix product, convolution or other operator weighs in the step, and computes at a tenth of the
rate that this CPU has for such a call, or less.

## Why
Most CPUs need about 150 cycles for an operation on a denormal number (below 1e-38), and all need
many for its root. `exp` of large negative numbers, decaying averages and vanishing gradients make
such numbers. Some types, such as float16, have no instructions, and long strides make a CPU read
memory slowly.

## Fix
For denormal numbers, let the CPU take them for 0. Threads inherit the setting, so make it first:

```python
trainer.fit(model, loader)  # before
torch.set_flush_denormal(True)  # after; at the start of the program
trainer.fit(model, loader)
```

Some operators, such as `sqrt`, stay slow with such numbers: keep the numbers larger there, by a
small constant. For other causes compute in float32 (`Trainer(precision="32-true")`), or make a
tensor contiguous once.

## How it is measured
A trace holds the shapes, types and strides of an operator's inputs, and `call_ns`, what the call
takes. If it may be slow, whoever reads the report times the same call on the same CPU with as many
threads: with ordinary numbers in contiguous float32 (`normal_ns`), in the recorded types
(`typed_ns`), with the recorded strides (`strided_ns`) and with denormal numbers (`denormal_ns`),
also after `torch.set_flush_denormal(True)` (`flushed_ns`). The first kind that takes half as long
as the call names the cause. This takes some seconds once; the times are stored in the user's cache
folder.

## Limits
Only calls that take 0.1 ms and 5 % of the step are judged, of operators whose arguments a trace
holds. Without torch, or on another CPU than that of the training, nothing is claimed. Neither is
anything if waits for a core may explain it or anomaly detection is on, unless the call is as slow
when timed alone. On a GPU, the roofline says how far operators are from the peaks.
"""

from collections.abc import Iterator
from enum import Enum

from lightning_gpuprof.analysis.run.line_times import line_times
from lightning_gpuprof.analysis.run.operator_rates import SLOW, SlowCalls, slow_calls
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.settings import settings_of
from lightning_gpuprof.analysis.savings.host_work import anomaly_on
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Range, Severity
from lightning_gpuprof.findings.rule import evidence_of, rule
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent, rate

HALF = 0.5
"""A kind of inputs is the cause if the call takes this share of its time in training with them."""
NEAR = 4.0
"""Denormal numbers are the cause if a call with nothing else takes from a quarter to four times as
long as in training, where some numbers may be larger."""
MOST_SPREAD = 3.0
"""Numbers make a call about equally slow in each step; other programs do not."""
MOST_WAIT_FRAC = 0.1
"""With several threads, the share of training in which the training thread may have waited for a
core: each parallel operation waits for the last thread, which may take a hundred times as long. A
single thread loses no more than it waits."""
MOST_NORMAL = 3.0
"""In training a normal call takes at most so many times what it takes alone."""
LINE_FRAC = 0.5
"""A line with this share of the calls' time, by samples, makes most of them."""
EFFORT = Effort(Horizon.QUICK, "one line", "losses differ a little: compare them")


class Cause(str, Enum):
    """What makes calls slow."""

    DTYPE = "dtype"
    STRIDES = "strides"
    DENORMAL = "denormal"
    UNFLUSHED = "unflushed"
    """Denormal numbers, which the operator's library computes with whatever the CPU is told."""
    UNKNOWN = "unknown"


ADVICE = {
    Cause.DTYPE: "In the recorded type, {dtype}, it takes {typed} here, in float32 {normal}: this "
    "CPU lacks instructions for the type. Compute in float32, or in a type that is as fast.",
    Cause.STRIDES: "With the recorded strides it takes {strided} here, with contiguous tensors "
    "{normal}. Make the tensor contiguous once, or create it in this layout.",
    Cause.DENORMAL: "With denormal numbers (below 1e-38) it takes {denormal} here, with ordinary "
    "ones {normal}. Call torch.set_flush_denormal(True) at the start of the program, before any "
    "thread computes, or find out why numbers become so small.",
    Cause.UNFLUSHED: "With denormal numbers (below 1e-38) it takes {denormal} here, with ordinary "
    "ones {normal}, and torch.set_flush_denormal(True) does not change this operator. Keep the "
    "numbers above 1e-38: scale them, add a small constant, or clamp them before the call.",
    Cause.UNKNOWN: "Timed alone, it takes {normal} here. What remains are pages of memory "
    "that are new to the process, other programs that use the memory, and cores of other speed.",
}
CHANGE = {
    Cause.DTYPE: "x = x.float()  # before the calls",
    Cause.STRIDES: "x = x.contiguous()  # once, before the calls",
    Cause.DENORMAL: "torch.set_flush_denormal(True)  # at the start of the program",
    Cause.UNFLUSHED: "x = x.clamp_min(torch.finfo(x.dtype).tiny)  # before the call",
    Cause.UNKNOWN: None,
}
OF_TRAINER = 'Trainer(..., precision="32-true")'
DTYPES = {"c10::Half": "float16", "c10::BFloat16": "bfloat16", "double": "float64"}
"""Types as programs name them, by their names in traces."""
EFFORTS = {
    Cause.DTYPE: EFFORT,
    Cause.STRIDES: Effort(Horizon.QUICK, "one line before the calls", "a copy of the tensor"),
    Cause.DENORMAL: Effort(Horizon.QUICK, "one line", "numbers below 1e-38 become 0"),
    Cause.UNFLUSHED: Effort(Horizon.QUICK, "one line before the calls", "losses differ a little"),
    Cause.UNKNOWN: Effort(Horizon.LONG, "the machine or the data", "it depends on the change"),
}


@rule(id="slow-operators", needs=("steps", "trace"), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the finding about the cause that costs most."""
    by_cause: dict[Cause, list[SlowCalls]] = {}
    for calls in slow_calls(run):
        if (cause := _cause(calls, run)) is not None:
            by_cause.setdefault(cause, []).append(calls)
    if not by_cause:
        return None
    cause, slow = max(by_cause.items(), key=lambda item: _cost_ns(item[1]))
    longest, cost_ns = slow[0], _cost_ns(slow)
    normal_ns = sum(calls.normal_per_step_ns for calls in slow)
    is_known, times = cause is not Cause.UNKNOWN, longest.times
    low_ns = max(0.0, cost_ns - MOST_NORMAL * normal_ns) if is_known else 0.0
    sentences = (_rates(longest), _advice(cause, longest), _excluded(cause, longest, run))
    return Finding(
        severity=Severity.BY_SAVING if is_known else Severity.INFO,
        title=f"{longest.row.call.name} takes {duration(cost_ns)} of each step, "
        f"{longest.ratio:.0f} times what is normal",
        advice=" ".join(sentences),
        evidence=evidence_of(
            call_ns=round(longest.call_ns),
            normal_ns=times.normal_ns,
            typed_ns=times.typed_ns,
            strided_ns=times.strided_ns,
            denormal_ns=times.denormal_ns,
            flushed_ns=times.flushed_ns,
            calls_count=round(longest.per_step),
        ),
        saving_ns=Range(round(low_ns), round(cost_ns - normal_ns)),
        cause_ns=Range(round(cost_ns), round(cost_ns)),
        confidence=0.9 if is_known else 0.5,
        places=_places(slow, run),
        change=OF_TRAINER if cause is Cause.DTYPE and _lowered(run) else CHANGE[cause],
        setting="flush_denormal=True" if cause is Cause.DENORMAL else None,
        explains=("costly-line", "host-bound", "slow-python"),
        effort=EFFORTS[cause],
    )


def _lowered(run: RunResults) -> bool:
    """Return whether the Trainer was asked for another type than float32."""
    precision = settings_of(run.start).precision
    return precision is not None and not precision.startswith("32")


def _cost_ns(slow: list[SlowCalls]) -> float:
    return sum(calls.per_step_ns for calls in slow)


def _cause(calls: SlowCalls, run: RunResults) -> Cause | None:
    """Return what makes calls slow; None if other programs or anomaly detection may."""
    call_ns, times = calls.call_ns, calls.times
    if times.typed_ns >= HALF * call_ns:
        return Cause.DTYPE
    if times.strided_ns >= HALF * call_ns:
        return Cause.STRIDES
    if anomaly_on(run):  # it formats the stack within each call
        return None
    spread = calls.row.spread
    if spread is None or spread > MOST_SPREAD or _is_contended(calls, run):
        return None
    return _denormal(calls, run) or Cause.UNKNOWN


def _is_contended(calls: SlowCalls, run: RunResults) -> bool:
    """Return whether other programs may have made calls slow, by the waits for a core."""
    wait = run.facts.core_wait
    if wait is None:
        return True
    if run.start.torch_threads == 1:
        return calls.ratio * (1 - wait.frac) < SLOW
    return wait.frac > MOST_WAIT_FRAC


def _denormal(calls: SlowCalls, run: RunResults) -> Cause | None:
    """Return the cause if it is denormal numbers."""
    times, is_flushing = calls.times, run.start.torch_settings.get("flush_denormal") is True
    with_denormals_ns = times.flushed_ns if is_flushing else times.denormal_ns
    if not with_denormals_ns / NEAR <= calls.call_ns <= NEAR * with_denormals_ns:
        return None
    unchanged = is_flushing or times.flushed_ns > HALF * times.denormal_ns
    return Cause.UNFLUSHED if unchanged else Cause.DENORMAL


def _rates(calls: SlowCalls) -> str:
    """Say what the call computes or moves per second, and what is normal."""
    row, threads = calls.row, calls.threads
    work, unit = row.flop_count or 0, "GFLOP/s"
    if work < (row.num_bytes or 0):
        work, unit = row.num_bytes or 0, "GB/s"
    call, normal = (rate(work / ns) for ns in (calls.call_ns, calls.times.normal_ns))
    with_threads = "1 thread" if threads == 1 else f"{threads} threads"
    return f"It runs at {call} {unit}, where {normal} are normal for this CPU with {with_threads}."


def _advice(cause: Cause, calls: SlowCalls) -> str:
    times = calls.times
    dtypes = (DTYPES[name] for name in calls.row.call.dtypes if name in DTYPES)
    return ADVICE[cause].format(
        dtype=next(dtypes, "float32"),
        normal=duration(times.normal_ns),
        typed=duration(times.typed_ns),
        strided=duration(times.strided_ns),
        denormal=duration(times.denormal_ns),
    )


def _excluded(cause: Cause, calls: SlowCalls, run: RunResults) -> str:
    """Say what else makes operators slow, and is excluded by what was recorded and timed."""
    wait = run.facts.core_wait
    excluded = ["the shape and the number of threads (the same were timed)"]
    if cause is not Cause.DTYPE:
        excluded.append("the type")
    if cause not in (Cause.DTYPE, Cause.STRIDES):
        excluded.append("the strides")
    if cause is Cause.UNKNOWN:
        excluded.append("denormal numbers")
    if wait is not None and not _is_contended(calls, run):
        excluded.append(f"contended cores (the thread waited {percent(wait.frac)} of the time)")
    if not anomaly_on(run):
        excluded.append("anomaly detection (off)")
    return f"Excluded: {', '.join(excluded)}."


def _places(slow: list[SlowCalls], run: RunResults) -> tuple[Place, ...]:
    """Return the lines that make the calls, where known, and else their phases."""
    return tuple(dict.fromkeys(place for calls in slow for place in _place(calls, run)))


def _place(calls: SlowCalls, run: RunResults) -> Iterator[Place]:
    row = calls.row
    phase = Phase(row.phase)
    if row.where is not None:
        where = row.where
        yield Place(file=where.file, line=where.line, phase=row.phase, name=row.call.name)
        return
    line = next((line for line in line_times(run) if line.phase is phase), None)
    if line is not None and line.mean_ns >= LINE_FRAC * calls.per_step_ns:
        yield Place.at(line, phase=row.phase, name=row.call.name)
    else:
        yield Place(phase=row.phase)
