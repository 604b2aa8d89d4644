"""How long operators of known cost take on the CPU, by their arguments."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lightning_gpuprof.analysis.roofline.op_costs import MODELS, operator_cost
from lightning_gpuprof.analysis.trace.code_places import CodePlaces
from lightning_gpuprof.analysis.trace.grouping import grouped, named, summed
from lightning_gpuprof.analysis.trace.linked_trace import LinkedTrace, Nesting
from lightning_gpuprof.analysis.trace.operators import host_phases
from lightning_gpuprof.analysis.trace.step_marks import step_events
from lightning_gpuprof.analysis.trace_tables import HostCallRow, SourceLine
from lightning_gpuprof.arrays import Int32, Int64, Mask
from lightning_gpuprof.records.operator_times import OperatorInputs
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.traces.timeline import CATEGORY_ID, MISSING, OpArguments, Timeline

MOST_ROWS = 30
MIN_FRAC = 0.01
"""Calls that take a smaller share of the marked steps are left out."""
APART = 8
"""Places of a step whose calls take so many times as long as those at the fastest place, with the
same arguments, are a row of their own: other numbers may go into them."""


def host_calls(trace: LinkedTrace, places: CodePlaces | None) -> tuple[HostCallRow, ...]:
    """Return the operators in the marked steps of a trace without a device, longest time first.

    Of operators of known cost that call each other, the outermost counts.
    """
    timeline, host = trace.timeline, trace.timeline.host
    marks = step_events(timeline)
    if len(timeline.device) or not len(marks) or not len(timeline.arguments):
        return ()
    modelled = (
        named(timeline, lambda name: name in MODELS)
        & (host.category == CATEGORY_ID["cpu_op"])
        & (host.arguments != MISSING)
    )
    step = np.searchsorted(marks.start_ns, host.start_ns, side="right") - 1
    in_step = (step >= 0) & (host.start_ns < marks.end_ns[np.maximum(step, 0)])
    rows = np.flatnonzero(_outermost(trace.nesting, modelled & in_step))
    phases, phase = host_phases(timeline, trace.nesting)
    key = (host.name[rows].astype(np.int64) << 32) + _alike(timeline, host.arguments[rows])
    ids, group = grouped(grouped(key)[1] * len(phases) + phase[rows])
    least_ns = MIN_FRAC * int(marks.dur_ns.sum())
    calls = []
    for number in np.flatnonzero(summed(group, host.dur_ns[rows], len(ids)) >= least_ns).tolist():
        alike = rows[group == number]
        first = int(alike[0])
        where = places.at(timeline, first) if places else None
        calls += [
            _row(timeline, first, phases[phase[first]], times, where)
            for times in _by_duration(host.dur_ns[alike], step[alike])
            if times.total_ns >= least_ns
        ]
    return tuple(sorted(calls, key=lambda row: (-row.total_ns, row.call.name))[:MOST_ROWS])


def _outermost(nesting: Nesting, modelled: Mask) -> Mask:
    """Return which of the events lie in no other of them."""
    nearest = nesting.inherited(np.where(modelled, np.arange(len(modelled)), -1))
    parent = nesting.parent
    outermost: Mask = modelled & ~((parent >= 0) & (nearest[parent] >= 0))
    return outermost


def _alike(timeline: Timeline, arguments: Int32) -> Int64:
    """Return a number for each of some arguments, the same where only floats differ.

    An optimizer's step size, say, is another number in each step, and takes no other time.
    """
    used, index = grouped(arguments)
    numbers: dict[str, int] = {}
    alike = [
        numbers.setdefault(_without_floats(timeline.arguments[at]), len(numbers))
        for at in used.tolist()
    ]
    return np.array(alike, dtype=np.int64)[index]


def _without_floats(arguments: OpArguments) -> str:
    values = ("" if "." in value and value[0] != "[" else value for value in arguments.values)
    return repr((arguments.dims, arguments.dtypes, arguments.strides, *values))


@dataclass(frozen=True)
class _Times:
    """The durations of calls at some places of the step; the fields are those of `HostCallRow`."""

    count: int
    total_ns: int
    fastest_ns: int
    spread: float | None


def _by_duration(dur_ns: Int64, step: Int64) -> Iterator[_Times]:
    """Yield the times of the calls at fast and at slow places of the step, where there are any.

    The first call of a step is at the first place, and so on; the fastest of the steps decides on a
    place.
    """
    place = np.arange(len(step)) - np.searchsorted(step, step)
    places = int(place.max()) + 1
    fastest, slowest = np.full(places, np.iinfo(np.int64).max), np.zeros(places, dtype=np.int64)
    np.minimum.at(fastest, place, dur_ns)
    np.maximum.at(slowest, place, dur_ns)
    spread = slowest / np.maximum(fastest, 1)
    compared = np.bincount(place) > 1
    slow = fastest >= APART * max(1, int(fastest.min()))
    for chosen in (~slow, slow):
        if chosen.any():
            durations, both = dur_ns[chosen[place]], chosen & compared
            yield _Times(
                count=len(durations),
                total_ns=int(durations.sum()),
                fastest_ns=round(float(fastest[chosen].mean())),
                spread=float(np.median(spread[both])) if both.any() else None,
            )


def _row(
    timeline: Timeline, event: int, phase: Phase, times: _Times, where: SourceLine | None
) -> HostCallRow:
    """Return the row of calls like a host event."""
    name = timeline.names[timeline.host.name[event]]
    arguments = timeline.arguments[timeline.host.arguments[event]]
    cost = operator_cost(name, arguments)
    return HostCallRow(
        call=OperatorInputs(
            name, arguments.dims, arguments.dtypes, arguments.strides, arguments.values
        ),
        phase=phase.value,
        count=times.count,
        total_ns=times.total_ns,
        fastest_ns=times.fastest_ns,
        spread=times.spread,
        flop_count=cost.flop_count if cost else None,
        num_bytes=cost.num_bytes if cost else None,
        where=where,
    )
