"""Operators that take far longer on the CPU than the same calls usually take there."""

from dataclasses import dataclass

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.analysis.trace_tables import HostCallRow
from lightning_gpuprof.hardware.operator_times import Machine
from lightning_gpuprof.records.operator_times import OperatorInputs, OperatorTimes

SLOW = 10
"""A call that takes so many times its normal time is slow. Contention and cold caches make two or
three of it (docs/adr/0052)."""
LEAST_NS = 100_000
"""Shorter calls are not judged: most of their normal time is the call itself."""
MIN_FRAC = 0.05
"""The share of a step from which calls are judged."""
MOST_CALLS = 6
"""At most so many different calls are timed."""
FAST_FLOP_PER_S, FAST_BYTES_PER_S = 10e9, 4e9
"""A tenth of what the fastest cores do: a call above both rates is slow on no machine."""
NOT_TIMED = ("aten::embedding", "aten::_to_copy", "aten::copy_")
"""Calls whose time depends on indices, and copies, which are there to change strides or types: the
same copy between contiguous tensors is no measure for them."""


@dataclass(frozen=True)
class HeavyCalls:
    """Calls of an operator that weigh in the step. Times are scaled to steps without the profiler.

    Args:
        row: The calls in the trace.
        per_step: How many there are per step.
        per_step_ns: What they take of a step.
        call_ns: What a call takes, as `HostCallRow.fastest_ns`.
    """

    row: HostCallRow
    per_step: float
    per_step_ns: float
    call_ns: float


@dataclass(frozen=True)
class SlowCalls(HeavyCalls):
    """Calls that take far longer than they take when they are timed alone.

    Args:
        times: What such a call takes on this machine.
        threads: With how many threads of torch it was timed.
    """

    times: OperatorTimes
    threads: int

    @property
    def ratio(self) -> float:
        """How many times its normal time a call takes."""
        return self.call_ns / max(1, self.times.normal_ns)

    @property
    def normal_per_step_ns(self) -> float:
        """What they take of a step at the normal rate."""
        return self.per_step * self.times.normal_ns


def machine_of(run: RunResults) -> Machine | None:
    """Return the machine that the run computed on; None on a GPU, or if it is not known."""
    start = run.start
    device, torch = start.device, start.versions.get("torch")
    if device is None or device.type != "cpu" or not device.name:
        return None
    if not torch or not start.torch_threads:
        return None
    # Threads beyond the cores take turns: they are part of what may be wrong.
    return Machine(device.name, min(start.torch_threads, run.cores or start.torch_threads), torch)


def suspects(run: RunResults) -> tuple[OperatorInputs, ...]:
    """Return the calls that weigh in the step and may be slow, the longest first.

    What they take on this machine has to be measured to know it.
    """
    machine = machine_of(run)
    if machine is None:
        return ()
    may_be_slow = (
        calls.row.call
        for calls in _heavy_calls(run)
        if calls.call_ns >= _fast_ns(calls.row, machine.threads)
    )
    return tuple(may_be_slow)[:MOST_CALLS]


def slow_calls(run: RunResults) -> tuple[SlowCalls, ...]:
    """Return the slow operators of a run whose calls were timed, those that take longest first."""
    machine = machine_of(run)
    if machine is None:
        return ()
    timed = (
        SlowCalls(**vars(calls), times=times, threads=machine.threads)
        for calls in _heavy_calls(run)
        if (times := run.operator_times.get(calls.row.call.key)) is not None
    )
    return tuple(calls for calls in timed if calls.ratio >= SLOW)


def _heavy_calls(run: RunResults) -> list[HeavyCalls]:
    """Return the calls with a share of the step, those that take longest first."""
    facts, step_ns = trace_facts(run), run.step_ns
    if facts is None or facts.doubted or not step_ns:
        return []
    scale, steps = facts.host_scale, facts.steps
    calls = (
        HeavyCalls(row, row.count / steps, scale * row.total_ns / steps, scale * row.fastest_ns)
        for row in facts.analysis.host_calls
        if row.call.name not in NOT_TIMED
    )
    return [
        heavy
        for heavy in calls
        if heavy.per_step_ns >= MIN_FRAC * step_ns and heavy.call_ns >= LEAST_NS
    ]


def _fast_ns(row: HostCallRow, threads: int) -> float:
    """Return the time above which a call may be slow."""
    if row.flop_count is None or row.num_bytes is None:
        return float("inf")
    rates = row.flop_count / FAST_FLOP_PER_S / threads, row.num_bytes / FAST_BYTES_PER_S
    return 1e9 * max(rates)
