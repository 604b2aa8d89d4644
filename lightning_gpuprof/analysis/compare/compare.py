"""Two runs side by side: what changed, by how much, and how sure that is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import inf
from typing import NamedTuple, TypeVar

from lightning_gpuprof.analysis.chance import MIN_BLOCKS
from lightning_gpuprof.analysis.compare import same
from lightning_gpuprof.analysis.compare.bootstrap import Interval, change_of_fit
from lightning_gpuprof.analysis.compare.change import Change, Side
from lightning_gpuprof.analysis.compare.outputs import check_outputs
from lightning_gpuprof.analysis.compare.phase_changes import (
    PartChange,
    PhaseChange,
    part_changes,
    phase_changes,
)
from lightning_gpuprof.analysis.compare.traced_changes import (
    TracedChange,
    kernel_changes,
    operator_changes,
)
from lightning_gpuprof.analysis.memory.memory_use import MemoryUse
from lightning_gpuprof.analysis.run.line_samples import LineTime
from lightning_gpuprof.analysis.run.line_times import line_times, unlisted_ns
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.steady import Distribution
from lightning_gpuprof.analysis.run.step_kinds import PLAIN
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.analysis.run.whole_fit import Kind, WholeFit
from lightning_gpuprof.records.phases import Phase

_T = TypeVar("_T")
BATCH_TOLERANCE = 0.02
"""Batch sizes differ if their means differ by more than this share. A smaller difference may come
from the shorter last batch of an epoch. Batch sizes set in the loaders need no tolerance."""
MIN_COMPILING_FRAC = 0.01
"""A smaller share of torch.compile in both runs makes no difference."""
LENGTH_TOLERANCE = 0.1
"""Runs differ in length if their numbers of steps differ by more than this share."""
CACHE_TOLERANCE = 0.1
"""Runs differ in what they loaded from the cache if the shares of their graphs differ by this."""
OTHER_LENGTH = "the runs differ in length, and each compiles its code once"
OTHER_CACHE = "one run loaded from torch's cache on disk what the other had to compile"


class Verdict(str, Enum):
    """The outcome of a comparison."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_DIFFERENCE = "no_difference"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class LineChange(Change):
    """The mean time at a line of the program in both runs; `name` is the phase's value."""

    line: LineTime
    """The line as the new run has it, or else the base."""
    sure: bool
    """Whether the difference is beyond what chance explains of so many samples."""


class StepChanges(NamedTuple):
    """A step's figures in both runs, in the order in which they are shown.

    Times are per step or per sample, except `wall_ns` and `compiling_ns`, which are the whole
    session's.
    """

    mean_ns: Change
    p50_ns: Change
    p95_ns: Change
    p99_ns: Change
    max_ns: Change
    whole_fit_ns: Change
    """The mean step, including the time between epochs and that of torch.compile."""
    wall_ns: Change
    compiling_ns: Change
    """All the time of torch.compile."""
    samples_per_s: Change


class MemoryChanges(NamedTuple):
    """Device memory in both runs, in bytes."""

    peak_allocated_bytes: Change
    peak_reserved_bytes: Change
    total_bytes: Change


@dataclass(frozen=True)
class Comparison:
    """New against base; times are in ns per step, or per sample if `per_sample`.

    `change` is the mean steady step's change as a fraction: -0.2 is a fifth less time. `fit_change`
    is the change of the whole fit, including the time between epochs and that of torch.compile; it
    decides the verdict.
    """

    verdict: Verdict
    change: Interval | None
    fit_change: Interval | None
    per_sample: bool
    base_steps: int
    new_steps: int
    by_device: tuple[bool, bool]
    """Whether the steps of base and new are timed on the device's clock, because the host ran
    ahead of it. Phases are always timed on the host's."""
    traced_steps: tuple[int, int] | None
    """How many profiled steps of base and new recorded operators and kernels."""
    compiling_left_out: str | None
    """Why the time of torch.compile is not part of `fit_change`; None if it is, or took no time."""
    steps: StepChanges
    phases: tuple[PhaseChange, ...]
    parts: tuple[PartChange, ...]
    """Named callbacks, loggers and regions within phases, the largest change first."""
    lines: tuple[LineChange, ...]
    """Lines that were sampled in both runs, the largest change first; empty if a run has none."""
    between: tuple[PhaseChange, ...]
    """Phases between epochs, per step."""
    operators: tuple[TracedChange, ...]
    kernels: tuple[TracedChange, ...]
    memory: MemoryChanges | None
    """None if neither run recorded device memory."""
    values: tuple[same.ValueCheck, ...]
    differs: tuple[same.Difference, ...]

    @property
    def step_verdict(self) -> Verdict:
        """The verdict on the steady step alone."""
        return _verdict(self.change)

    @property
    def other_model(self) -> tuple[same.Difference, ...]:
        """How the models differ. If they do, the verdict does not judge a change of settings."""
        return tuple(difference for difference in self.differs if difference.kind == "model")


def compare(
    base: RunResults, new: RunResults, *, tolerance: float, per_step: bool = False
) -> Comparison:
    """Compare two runs; where batch sizes differ, times are per sample unless `per_step`."""
    per_sample = not per_step and _batch_sizes_differ(base, new)
    divisors = [run.batch_size or 1.0 if per_sample else 1.0 for run in (base, new)]
    sides = Side(base, divisors[0]), Side(new, divisors[1])
    compiling_left_out = _compiling_left_out(base, new)
    if compiling_left_out is not None:
        base, new = without_compiling(base), without_compiling(new)
        sides = Side(base, divisors[0]), Side(new, divisors[1])
    fits = [_fit(run) for run in (base, new)]
    fit_change = _scaled(change_of_fit(*fits), divisors)
    steps_of_fits = [None if fit is None else fit.steps for fit in fits]
    change = _scaled(change_of_fit(*steps_of_fits), divisors)
    base_trace, new_trace = trace_facts(base), trace_facts(new)
    traced_steps: tuple[int, int] | None = None
    operators: tuple[TracedChange, ...] = ()
    kernels: tuple[TracedChange, ...] = ()
    if base_trace is not None and new_trace is not None:
        traced_steps = (base_trace.steps, new_trace.steps)
        traces = (base_trace, new_trace)
        operators = operator_changes(sides, traces)
        kernels = kernel_changes(sides, traces)
    return Comparison(
        verdict=_verdict(fit_change),
        change=change,
        fit_change=fit_change,
        per_sample=per_sample,
        base_steps=len(base.steady_dur_ns),
        new_steps=len(new.steady_dur_ns),
        by_device=(base.by_device, new.by_device),
        traced_steps=traced_steps,
        compiling_left_out=compiling_left_out,
        steps=_steps(*sides),
        phases=phase_changes(*sides),
        parts=part_changes(*sides),
        lines=_lines(*sides),
        between=_between(*sides),
        operators=operators,
        kernels=kernels,
        memory=_memory(base, new),
        values=(
            *same.check_values(base.facts.scalars, new.facts.scalars, tolerance=tolerance),
            *check_outputs(
                base.facts.predict_outputs, new.facts.predict_outputs, tolerance=tolerance
            ),
        ),
        differs=same.differences(base.start, new.start),
    )


def _batch_sizes_differ(base: RunResults, new: RunResults) -> bool:
    a, b = base.batch_size, new.batch_size
    if a is None or b is None:
        return False
    given = [run.start.loader and run.start.loader.batch_size for run in (base, new)]
    return (all(given) and given[0] != given[1]) or abs(a - b) > BATCH_TOLERANCE * max(a, b)


def _fit(run: RunResults) -> WholeFit | None:
    """Return the whole fit, with steps on the device's clock if the host ran ahead of it.

    Such a host waits for the device between epochs. On the device's clock this wait is part of the
    steps, so it is subtracted from the time between epochs.
    """
    fit, device_ns, step_ns = run.whole_fit, run.device.dur_ns, run.step_ns
    if fit is None or device_ns is None or not run.by_device or len(device_ns) < MIN_BLOCKS:
        return fit
    between = [kind for kind in fit.kinds if kind.between]
    between_ns = sum(kind.per_step * float(kind.values_ns.mean()) for kind in between)
    waited_ns = (step_ns or 0) - (run.steps.dur.mean_ns if run.steps else 0)
    left_frac = max(0.0, 1 - waited_ns / between_ns) if between_ns else 0.0
    steps = Kind(PLAIN, device_ns, (step_ns or 0) / float(device_ns.mean()))
    shorter = (replace(kind, per_step=left_frac * kind.per_step) for kind in between)
    return replace(fit, kinds=(steps, *shorter))


def without_compiling(run: RunResults) -> RunResults:
    """Return the results of a run without the time of torch.compile in its whole fit."""
    fit = run.whole_fit
    return run if fit is None else replace(run, whole_fit=replace(fit, compiling_ns=0.0))


def _compiling_left_out(base: RunResults, new: RunResults) -> str | None:
    """Return why the runs' times of torch.compile cannot be compared; None if they can.

    A run compiles its code once, however long it is, and loads from its cache on disk what an
    earlier run has compiled.
    """
    times = [run.compiled.time for run in (base, new)]
    shares = [
        0.0 if t is None else run.of_run(t.whole_ns)
        for run, t in zip((base, new), times, strict=True)
    ]
    if max(shares) < MIN_COMPILING_FRAC:
        return None
    steps = [0 if run.steps is None else run.steps.ran for run in (base, new)]
    if abs(steps[0] - steps[1]) > LENGTH_TOLERANCE * max(steps):
        return OTHER_LENGTH
    loaded = [0.0 if time is None else time.loaded_frac for time in times]
    return OTHER_CACHE if abs(loaded[0] - loaded[1]) > CACHE_TOLERANCE else None


def _compiling_ns(run: RunResults) -> int | None:
    time = run.compiled.time
    return None if time is None or not time.whole_ns else time.whole_ns


def _scaled(change: Interval | None, divisors: Sequence[float]) -> Interval | None:
    """Convert a change of the time per step to a change of the divided times."""
    factor = divisors[0] / divisors[1]
    if change is None or factor == 1:
        return change
    low, middle, high = ((1 + x) * factor - 1 for x in (change.low, change.middle, change.high))
    return Interval(low, middle, high)


def _verdict(change: Interval | None) -> Verdict:
    if change is None:
        return Verdict.UNKNOWN
    if change.low <= 0 <= change.high:
        return Verdict.NO_DIFFERENCE
    return Verdict.FASTER if change.middle < 0 else Verdict.SLOWER


def _steps(base: Side, new: Side) -> StepChanges:
    old, now = base.run.step_dur, new.run.step_dur

    def of_step(name: str, read: Callable[[Distribution], int]) -> Change:
        base_ns, new_ns = _both(old, now, read)
        return Change(name, base.scaled(base_ns), new.scaled(new_ns))

    fit_ns = _both(base.run.whole_fit, new.run.whole_fit, lambda fit: fit.step_ns)
    walls = [None if side.run.end is None else side.run.wall.wall_ns for side in (base, new)]
    return StepChanges(
        mean_ns=of_step("mean_ns", lambda step: step.mean_ns),
        p50_ns=of_step("p50_ns", lambda step: step.p50_ns),
        p95_ns=of_step("p95_ns", lambda step: step.p95_ns),
        p99_ns=of_step("p99_ns", lambda step: step.p99_ns),
        max_ns=of_step("max_ns", lambda step: step.max_ns),
        whole_fit_ns=Change("whole_fit_ns", base.scaled(fit_ns[0]), new.scaled(fit_ns[1])),
        wall_ns=Change("wall_ns", *walls),
        compiling_ns=Change("compiling_ns", *map(_compiling_ns, (base.run, new.run))),
        samples_per_s=Change("samples_per_s", base.run.samples_per_s, new.run.samples_per_s),
    )


def _both(
    base: _T | None, new: _T | None, read: Callable[[_T], float]
) -> tuple[float | None, float | None]:
    """Read a figure of both sides; None for a side that lacks the object to read from."""
    return None if base is None else read(base), None if new is None else read(new)


def _lines(base: Side, new: Side) -> tuple[LineChange, ...]:
    """Compare the lines of two runs; the text of a line stands for its number."""
    if base.run.lines is None or new.run.lines is None:
        return ()

    def by_text(side: Side) -> dict[tuple[Phase, str, str, str], LineTime]:
        times: dict[tuple[Phase, str, str, str], LineTime] = {}
        for time in line_times(side.run):
            text = time.source or str(time.line)
            times.setdefault((time.phase, time.file, time.function, text), time)
        return times

    old, now, changes = by_text(base), by_text(new), []
    for key in {**old, **now}:
        before, after = old.get(key), now.get(key)
        line = after or before
        assert line is not None
        low, high = _bounds(before, base)
        new_low, new_high = _bounds(after, new)
        changes.append(
            LineChange(
                line.phase.value,
                base.scaled(None if before is None else before.mean_ns),
                new.scaled(None if after is None else after.mean_ns),
                line,
                sure=new_low > high or new_high < low,
            )
        )
    return tuple(sorted(changes, key=lambda change: -abs(change.shift)))


def _bounds(time: LineTime | None, side: Side) -> tuple[float, float]:
    """Return the interval of a line's time; a line of few samples takes at most as they do."""
    if time is not None:
        return time.low_ns / side.divisor, time.high_ns / side.divisor
    most_ns = unlisted_ns(side.run)
    return 0.0, inf if most_ns is None else most_ns / side.divisor


def _between(base: Side, new: Side) -> tuple[PhaseChange, ...]:
    def means(side: Side) -> dict[str, float]:
        fit = side.run.whole_fit
        return {} if fit is None else {n: ns / side.divisor for n, ns in fit.between_ns.items()}

    old, now = means(base), means(new)
    names = [phase.value for phase in Phase if phase.value in old or phase.value in now]
    return tuple(PhaseChange(name, old.get(name, 0.0), now.get(name, 0.0)) for name in names)


def _memory(base: RunResults, new: RunResults) -> MemoryChanges | None:
    def of_memory(name: str, read: Callable[[MemoryUse], int]) -> Change:
        return Change(name, *_both(base.memory.use, new.memory.use, read))

    if base.memory.use is None and new.memory.use is None:
        return None
    return MemoryChanges(
        of_memory("peak_allocated_bytes", lambda memory: memory.peak_allocated_bytes),
        of_memory("peak_reserved_bytes", lambda memory: memory.peak_reserved_bytes),
        of_memory("total_bytes", lambda memory: memory.total_bytes),
    )
