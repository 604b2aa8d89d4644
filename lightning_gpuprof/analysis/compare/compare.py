"""Two runs side by side: what changed, by how much, and how sure that is."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from lightning_gpuprof.analysis.compare import same
from lightning_gpuprof.analysis.compare.bootstrap import MIN_BLOCKS, Interval, change_of_fit
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.analysis.run.whole_fit import PLAIN, Kind, WholeFit
from lightning_gpuprof.records.phases import Phase

BATCH_TOLERANCE = 0.02
"""Mean batch sizes further apart are other batch sizes, not another last batch of an epoch. What
loaders were asked for needs no tolerance."""


_Sides = Sequence[tuple[RunResults, float]]
"""Both runs, with what their times are divided by."""


class Verdict(str, Enum):
    """The outcome of a comparison."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_DIFFERENCE = "no_difference"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Change:
    """One figure of both runs; None on a side that lacks it."""

    name: str
    base: float | None
    new: float | None

    @property
    def diff(self) -> float | None:
        """New less base."""
        return None if self.base is None or self.new is None else self.new - self.base


@dataclass(frozen=True)
class Comparison:
    """New against base; times in ns per step, or per sample where `per_sample`.

    `change` is the mean steady step's change as a fraction: -0.2 is a fifth less time. `fit_change`
    is that of the whole fit, with the time between epochs in it: the verdict goes by it.
    """

    verdict: Verdict
    change: Interval | None
    fit_change: Interval | None
    per_sample: bool
    base_steps: int
    new_steps: int
    by_device: tuple[bool, bool]
    """Whether a side's steps are timed on the device's clock, which its host was ahead of; phases
    are on the host's."""
    traced_steps: tuple[int, int] | None
    """Profiled steps that operators and kernels are of."""
    steps: tuple[Change, ...]
    phases: tuple[Change, ...]
    between: tuple[Change, ...]
    """Phases between epochs, per step."""
    operators: tuple[Change, ...]
    kernels: tuple[Change, ...]
    memory: tuple[Change, ...]
    values: tuple[same.ValueCheck, ...]
    differs: tuple[same.Difference, ...]

    @property
    def step_verdict(self) -> Verdict:
        """The verdict on the steady step alone."""
        return _verdict(self.change)

    @property
    def other_model(self) -> tuple[same.Difference, ...]:
        """How the models differ: where they do, the verdict is none on a change."""
        return tuple(one for one in self.differs if one.kind == "model")


def compare(base: RunResults, new: RunResults, *, tolerance: float) -> Comparison:
    """Compare two runs."""
    per_sample = _other_batch(base, new)
    scale = [run.batch_size or 1.0 if per_sample else 1.0 for run in (base, new)]
    sides = list(zip((base, new), scale, strict=True))
    traced = [facts for run in (base, new) if (facts := trace_facts(run)) is not None]
    fits = [_fit(run) for run in (base, new)]
    whole = _scaled(change_of_fit(*fits), scale)
    change = _scaled(change_of_fit(*(fit and fit.steps for fit in fits)), scale)
    return Comparison(
        verdict=_verdict(whole),
        change=change,
        fit_change=whole,
        per_sample=per_sample,
        base_steps=len(base.steady_dur_ns),
        new_steps=len(new.steady_dur_ns),
        by_device=(base.by_device, new.by_device),
        traced_steps=(traced[0].steps, traced[1].steps) if len(traced) == 2 else None,
        steps=_steps(sides),
        phases=_phases(sides),
        between=_between(sides),
        operators=_table(sides, "operators"),
        kernels=_table(sides, "kernels"),
        memory=_memory(sides),
        values=same.check_values(base.scalars, new.scalars, tolerance=tolerance),
        differs=same.differences(base.start, new.start),
    )


def _other_batch(base: RunResults, new: RunResults) -> bool:
    a, b = base.batch_size, new.batch_size
    if a is None or b is None:
        return False
    asked = [run.start.loader and run.start.loader.batch_size for run in (base, new)]
    return (all(asked) and asked[0] != asked[1]) or abs(a - b) > BATCH_TOLERANCE * max(a, b)


def _fit(run: RunResults) -> WholeFit | None:
    """Return the whole fit; of a host that was ahead, with its steps on the device's clock.

    What such a host then waited for the device between epochs is in these.
    """
    fit, device_ns, step_ns = run.whole_fit, run.device_dur_ns, run.step_ns
    if fit is None or device_ns is None or not run.by_device or len(device_ns) < MIN_BLOCKS:
        return fit
    between = [one for one in fit.kinds if one.between]
    between_ns = sum(one.per_step * float(one.values_ns.mean()) for one in between)
    waited_ns = (step_ns or 0) - (run.steps.dur.mean_ns if run.steps else 0)
    left = max(0.0, 1 - waited_ns / between_ns) if between_ns else 0.0
    steps = Kind(PLAIN, device_ns, (step_ns or 0) / float(device_ns.mean()))
    return replace(
        fit, kinds=(steps, *(replace(one, per_step=left * one.per_step) for one in between))
    )


def _scaled(change: Interval | None, scale: Sequence[float]) -> Interval | None:
    factor = scale[0] / scale[1]
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


def _steps(sides: _Sides) -> tuple[Change, ...]:
    rows = [
        Change(name, *(getattr(r.step_dur, name) / by if r.step_dur else None for r, by in sides))
        for name in ("mean_ns", "p50_ns", "p95_ns", "p99_ns", "max_ns")
    ]
    fits = ((run.whole_fit.step_ns if run.whole_fit else None, by) for run, by in sides)
    fit = [None if one is None else one / by for one, by in fits]
    walls = [None if run.end is None else run.wall.wall_ns for run, _ in sides]
    samples = Change("samples_per_s", *(run.samples_per_s for run, _ in sides))
    return (*rows, Change("whole_fit_ns", *fit), Change("wall_ns", *walls), samples)


def _phases(sides: _Sides) -> tuple[Change, ...]:
    rows = []
    for phase in Phase:
        stats = [(run.per_step(phase), by) for run, by in sides]
        means = [None if one is None else one.mean_ns / by for one, by in stats]
        if any(means):
            rows.append(Change(phase.value, *means))
    return tuple(rows)


def _between(sides: _Sides) -> tuple[Change, ...]:
    found = [
        {phase: ns / by for phase, ns in run.whole_fit.between_ns.items()} if run.whole_fit else {}
        for run, by in sides
    ]
    names = [phase.value for phase in Phase if any(phase.value in side for side in found)]
    return tuple(Change(name, *(side.get(name, 0.0) for side in found)) for name in names)


def _table(sides: _Sides, table: str) -> tuple[Change, ...]:
    """Return operators (own time) or kernels of both traces, the largest change first."""
    found = []
    for run, by in sides:
        facts = trace_facts(run)
        if facts is None:
            return ()
        if table == "operators":
            found.append({op.name: op.self_ns / by for op in facts.operators.values()})
        else:
            per = facts.steps * by
            rows = facts.rows(table)
            found.append({str(row["name"]): (row.get("total_ns") or 0) / per for row in rows})
    changes = [Change(name, *(side.get(name) for side in found)) for name in found[0] | found[1]]
    return tuple(sorted(changes, key=lambda c: -abs((c.new or 0) - (c.base or 0))))


def _memory(sides: _Sides) -> tuple[Change, ...]:
    memory = [run.memory for run, _ in sides]
    names = ("peak_allocated_bytes", "peak_reserved_bytes", "total_bytes") if any(memory) else ()
    return tuple(Change(name, *(getattr(one, name, None) for one in memory)) for name in names)
