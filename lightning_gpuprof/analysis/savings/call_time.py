"""What a call takes in a loop of small operators, without the recording that made it longer."""

from dataclasses import dataclass

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import TraceFacts, steady_as_traced_ns
from lightning_gpuprof.analysis.trace.short_calls import computes

EVENT_NS = 2_000
"""Recording an event slows the host down by up to this: 0.7 to 1.8 µs were measured (torch 2.13,
300 to 35,000 events a step). What profiled steps take beyond it is the machine's."""
IN_LOOP_NS = 1_000
"""The same of short calls, without what it does to the caches (`crowding`): 0.2 to 1.1 µs by how
much shorter six loops made a step (docs/adr/0031)."""
CROWDED_FRAC, MOST_CROWDING = 0.000_028, 25_000
"""By this share for each event, up to so many a step, long operators are slower for the caches that
events fill: the same products took 5.6 ms beside 300 of them and 9.6 beside 25,000."""


def crowding(events: float) -> float:
    """Return how many times as long operators take beside so many events a step.

    >>> crowding(0), round(crowding(10_000), 2), crowding(25_000) == crowding(90_000)
    (1.0, 1.28, True)
    """
    return 1 + CROWDED_FRAC * min(events, MOST_CROWDING)


@dataclass(frozen=True)
class Stretches:
    """Short operators called again and again in a steady step (`trace/short_calls.py`)."""

    own_ns: float
    """Their time without recording, if that takes the same for each event."""
    alike_ns: float
    """The same if all of a traced step is slower alike."""
    calls: float
    """Those that compute something, with the ones inside."""
    other_calls: float
    """Such calls in forward and backward that are none of them."""
    node_frac: float = 0.0
    """The share of their time in nodes of the autograd graph."""

    def above_frac(self, usual: float) -> float:
        """Return their share above the usual number of calls of a model.

        The others come first: they are in no loop.

        >>> Stretches(own_ns=0, alike_ns=0, calls=100, other_calls=40).above_frac(60)
        0.8
        """
        return max(0.0, 1 - max(0.0, usual - self.other_calls) / self.calls)


def stretches(run: RunResults, facts: TraceFacts) -> Stretches | None:
    """Return what a trace says of them, or None where it has none or does not say.

    A traced step is longer by what recording took: the same for each event wherever it lies, and
    by `crowding` for all but these calls. The length of a steady step says what it is for an event;
    of the calls, timed by themselves, that is taken off for each of theirs.
    """
    whole_ns = facts.per_step("short_calls", "total_ns")
    inside = facts.per_step("short_calls", "event_count")
    calls = facts.per_step("short_calls", "call_count")
    steady_ns, operators = steady_as_traced_ns(run), facts.operators.values()
    if not whole_ns or not inside or not calls or not steady_ns:
        return None
    traced_ns = max(whole_ns, steady_ns / facts.host_scale)
    events = max(inside, sum(op.calls for op in operators))
    slower = crowding(events)
    rest_ns, outside = (traced_ns - whole_ns) / slower, (events - inside) / slower
    event_ns = (whole_ns + rest_ns - steady_ns) / (inside + outside)
    event_ns = min(IN_LOOP_NS, max(0.0, event_ns))
    own_ns = max(0.0, whole_ns - event_ns * inside)
    unrecorded_ns = own_ns + max(0.0, rest_ns - event_ns * outside)
    every = sum(max(0.0, op.calls - op.update_calls) for op in operators if computes(op.name))
    # What is left is the machine's, which slows all down alike.
    own_ns *= min(1.0, steady_ns / max(1.0, unrecorded_ns))
    node_frac = (facts.per_step("short_calls", "node_ns") or 0.0) / whole_ns
    return Stretches(own_ns, whole_ns * facts.host_scale, calls, max(0.0, every - calls), node_frac)
