"""How much of a step is the host's own work: Python, dispatch and operators too small to matter."""

from collections.abc import Sequence
from dataclasses import dataclass

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import (
    Operator,
    TraceFacts,
    grown_ns,
    steady_as_traced_ns,
    trace_facts,
)
from lightning_gpuprof.analysis.savings.graph_nodes import nodes_ns
from lightning_gpuprof.analysis.trace.operators import computes as computes_something
from lightning_gpuprof.records.phases import Phase

COMPUTE = (Phase.FORWARD, Phase.BACKWARD)
"""Where a user's own operators are; the optimizer's have a finding of their own."""
THIN_NS = 10_000
"""An operator below this is about as long as dispatching it from Python: "thin"."""
CALLS_PER_TENSOR = 20
"""Calls that compute something, forward and backward, per parameter tensor of a model in which
nothing is repeated: 7 to 16 were measured (docs/adr/0031). What is above comes from loops."""
EVENT_NS = 2_000
"""Recording an event slows the host down by up to this: 0.7 to 1.8 µs were measured."""
LOOPED = 100
"""Calls per step from which an operator is in a loop, however long each takes: what it does to
slices one by one, one operator over all of them does at once."""
CALL_NS = 1_000
"""A call that computes something takes at least this from Python, a node's call too: 2.2 µs were
measured in a loop of 878 moments, forward and backward (docs/adr/0031)."""
LOOP_READS = 20
"""A loop that reads value after value reads at least tens of them a step."""
LOOP_LOW_FRAC = 0.75
"""Least part of a loop of small operators that one operator over all elements removes: 0.8 and more
were measured in five programs (docs/adr/0031)."""
THIN_COUNT_FRAC = 0.5
"""Share of thin kernels from which launches are the matter, not how late the host is."""
READ_SHARE = 0.10
"""A loop around reads of values has at most ten operators per read."""
UPDATE_CALLS = 10
"""The same of an optimizer that updates one tensor at a time."""
UPDATES = 4
"""The same of one kind of operator in place, as gradients are clipped and weights updated."""
MOSTLY = 0.5
COPY = "aten::copy_"
READS = ("aten::item", "aten::_local_scalar_dense")
SEARCHED = "aten::_is_any_true"
"""Anomaly detection's search of a gradient for NaN ends with it, and reads its result, a value for
each; nothing else in a backward pass calls it."""
RECURRENT = ("aten::gru", "aten::lstm", "aten::rnn_tanh", "aten::rnn_relu")
"""A recurrent layer's whole sequence is one call of these: the loop inside is torch's own."""
TENSORS_PER_LAYER = 2
"""A recurrent layer holds that many or more, so more calls than layers mean a loop around one."""
_OPTIMIZER = ("aten::_foreach", "aten::_fused", "Optimizer.")


@dataclass(frozen=True)
class HostWork:
    """Forward and backward of a steady step against the time of operators of some length."""

    compute_ns: int
    heavy_ns: int
    """Self time of operators that take `THIN_NS` or more per call, if profiled steps are slower
    throughout."""
    heavy_most_ns: int
    """The same if they are slower by what recording each event takes."""
    forward_operators_ns: int
    """Self time of operators, thin ones and copies too, outside the autograd graph's nodes."""
    calls: int
    """Calls per step that compute something, in forward and backward."""
    thin_calls: int
    """Calls per step of thin operators there, of any kind."""
    usual_calls: int | None
    """`calls` to expect of the model's size; None where that is unknown."""
    looped_ns: int
    """Self time per step of operators that are not thin, but called `LOOPED` times or more."""
    looped_thin_ns: int
    """Of it, the first `THIN_NS` of each call: what a thin operator's call takes, theirs takes."""
    reads: int
    """Values read one by one (`.item()`) per step, without the optimizer's own."""
    read_ns: int
    worst: str | None
    """The thin operator called most."""
    recurrent_frac: float
    """Share of forward inside recurrent layers, whose loop is not the user's to batch; their
    backward is taken to have the same share."""

    @property
    def overhead_ns(self) -> int:
        """What is left: Python, dispatch and thin operators."""
        return max(0, self.compute_ns - self.heavy_ns)

    @property
    def repeated_ns(self) -> int:
        """The overhead's share of the calls above the usual number, outside recurrent layers."""
        return round(self._repeated_frac * self.overhead_ns)

    @property
    def repeated_least_ns(self) -> int:
        """The same by the least overhead, with what calls of longer operators in loops take."""
        overhead_ns = max(0, self.compute_ns - self.heavy_most_ns) + self.looped_thin_ns
        return round(self._repeated_frac * overhead_ns)

    @property
    def loops_most_ns(self) -> int:
        """The overhead of loops, with longer operators that are called as often."""
        return self.repeated_ns + self.longer_ns

    @property
    def longer_ns(self) -> int:
        """What longer operators in loops take: gone where one does all turns' at once."""
        return round(self.own_frac * self.looped_ns)

    @property
    def dispatch_ns(self) -> int:
        """What the calls above the usual number take at least, however long the others are."""
        calls = self._repeated_frac * self.calls
        return min(self.repeated_ns, round(calls * CALL_NS))

    @property
    def _repeated_frac(self) -> float:
        above = max(0, self.calls - (self.usual_calls or 0))
        return self.own_frac * above / max(1, self.calls)

    @property
    def own_frac(self) -> float:
        """The share outside recurrent layers."""
        return 1.0 - self.recurrent_frac


def reads_in_a_loop(work: HostWork | None) -> bool:
    """Tell whether single values are read so often that a loop around them must be the cost."""
    return (
        work is not None
        and work.reads >= LOOP_READS
        and work.reads >= READ_SHARE * (work.calls - (work.usual_calls or 0))
    )


def host_work(run: RunResults) -> HostWork | None:
    """Split forward and backward by the last analysed trace; None where there is none."""
    facts = trace_facts(run)
    per_step = [stats for phase in COMPUTE if (stats := run.per_step(phase)) is not None]
    if facts is None or not facts.rows("operators") or not per_step:
        return None
    tensors = parameter_tensors(run)
    used = [op for op in facts.operators.values() if not _of_optimizer(op, tensors)]
    thin = [op for op in used if op.self_ns < THIN_NS * op.calls]
    read = facts.operators.get(READS[0])
    worst = max(filter(computes, thin), key=_own_calls, default=None)
    heavy = [op for op in used if op not in thin]
    looped = [op for op in heavy if _own_calls(op) >= LOOPED]
    updates = any(op.update_calls for op in facts.operators.values())
    reads = _own_reads(run, read, tensors, updates=updates) if read else 0.0
    calls = sum(_own_calls(op) for op in used if computes(op))
    usual = None if tensors is None else _usual(run, updates=updates) * tensors
    return HostWork(
        compute_ns=max(0, sum(stats.median_ns for stats in per_step) - _not_computed_ns(run)),
        heavy_ns=round(sum(op.self_ns for op in heavy)),
        heavy_most_ns=round(sum(op.self_ns for op in heavy) * unscaled_frac(run, facts)),
        forward_operators_ns=_forward_operators_ns(facts, used),
        calls=round(calls),
        thin_calls=round(sum(map(_own_calls, thin))),
        usual_calls=usual,
        looped_ns=round(sum(op.self_ns for op in looped)),
        looped_thin_ns=round(sum(THIN_NS * _own_calls(op) for op in looped)),
        reads=round(reads),
        read_ns=round(read.total_ns * reads / read.calls) if read and read.calls else 0,
        worst=worst.name if worst else None,
        recurrent_frac=_recurrent_frac(run, facts, tensors),
    )


def _not_computed_ns(run: RunResults) -> int:
    """Return what forward and backward take at the median for something else than their work.

    What something that grows adds to them, and in forward waiting for other threads. (What a busy
    machine adds to single steps is not in the median, to which the trace's times are scaled.)
    """
    since = grown_ns(run)
    grown = sum(since.get(phase, 0) for phase in COMPUTE)
    lines, forward = run.lines, run.per_step(Phase.FORWARD)
    if lines is None or forward is None:
        return grown
    waiting = sum(one.count for one in lines.of(Phase.FORWARD) if one.waits)
    share = waiting / max(1, lines.by_phase.get(Phase.FORWARD.value, 0))
    return grown + round(share * forward.median_ns)


def _own_reads(run: RunResults, read: Operator, tensors: int | None, *, updates: bool) -> float:
    """Return the reads per step outside of the optimizer: fused ones too read their step counts."""
    if updates:
        return max(0.0, read.calls - read.update_calls)
    # No region around the optimizer's step.
    reads = tensors if tensors is not None and optimizer_reads(run) else 0
    return max(0.0, read.calls - reads)


def _forward_operators_ns(facts: TraceFacts, used: Sequence[Operator]) -> int:
    every = facts.operators.values()
    if any(op.update_calls for op in every):
        own = sum(max(0.0, op.self_ns - op.update_self_ns) for op in every)
        return max(0, round(own - nodes_ns(facts)))
    # No region around the optimizer's step: by names. Without one a copy is a change of layout.
    copies = facts.operators.get(COPY)
    copies_ns = copies.self_ns if copies is not None and copies not in used else 0
    return max(0, round(sum(op.self_ns for op in used) + copies_ns - nodes_ns(facts)))


def unscaled_frac(run: RunResults, facts: TraceFacts) -> float:
    """Return by how much times in the trace are too short if only its events slowed it down.

    Times are scaled to steps without the profiler. That is right where all of a profiled step is
    slower (its caches hold events, or the machine was busy), and makes long operators too short
    where the events alone took what it is longer by: they have few, and suffer from the caches
    that these fill.
    """
    steady_ns = steady_as_traced_ns(run)
    traced_ns = steady_ns / facts.host_scale
    events = sum(op.calls for op in facts.operators.values())
    recording_ns = min(traced_ns - steady_ns, EVENT_NS * events)
    # What is left of the slowness is the machine's, which slows all down alike.
    if traced_ns <= recording_ns:
        return 1.0
    return max(1.0, traced_ns / (traced_ns - recording_ns))


def _recurrent_frac(run: RunResults, facts: TraceFacts, tensors: int | None) -> float:
    forward = run.per_step(Phase.FORWARD)
    layers = [op for name, op in facts.operators.items() if name in RECURRENT]
    most = LOOPED if tensors is None else tensors / TENSORS_PER_LAYER
    if forward is None or not forward.mean_ns or sum(op.calls for op in layers) > most:
        return 0.0
    return min(1.0, sum(op.total_ns for op in layers) / forward.mean_ns)


def computes_on_all_cores(run: RunResults) -> bool | None:
    """Tell whether training on a CPU keeps every core busy; None where no trace says so.

    Torch may use all cores, and most of the computing is in operators long enough to be divided
    among them.
    """
    threads, cores = run.start.torch_threads, run.cores
    if run.on_gpu or threads is None or cores is None or threads < cores:
        return False
    work = host_work(run)
    return None if work is None else work.heavy_ns >= MOSTLY * work.compute_ns


def parameter_tensors(run: RunResults) -> int | None:
    """Return the number of parameter tensors, None where the records do not say."""
    dtypes = run.start.model.get("dtypes")
    if not isinstance(dtypes, dict) or not dtypes:
        return None
    return sum(count for count in dtypes.values() if isinstance(count, int))


def optimizer_reads(run: RunResults) -> bool:
    """Tell whether an optimizer updates one tensor at a time, reading its step count with each."""
    optimizers = run.start.model.get("optimizers") or []
    return any(not (one.get("fused") or one.get("foreach")) for one in optimizers)


def anomaly_on(run: RunResults) -> bool:
    """Tell whether autograd's anomaly detection was on, as was read or as a trace shows."""
    facts = trace_facts(run)
    search = facts.operators.get(SEARCHED) if facts else None
    if search is not None and search.backward_calls:
        return True
    return bool(run.start.trainer.get("detect_anomaly")) or run.anomaly_mode is not None


def _own_calls(op: Operator) -> float:
    """Return an operator's calls but for those of the update, and of hooks right before it."""
    return max(0.0, op.calls - op.update_calls)


def _usual(run: RunResults, *, updates: bool) -> int:
    """Return the usual calls for each tensor; where updates are known, without them."""
    return CALLS_PER_TENSOR + (UPDATE_CALLS if optimizer_reads(run) and not updates else 0)


def computes(op: Operator) -> bool:
    """Tell whether an operator's calls compute something, and are counted nowhere else."""
    return computes_something(op.name)


def _of_optimizer(op: Operator, tensors: int | None) -> bool:
    # In place and without an underscore before: parameters are updated so, activations rarely. An
    # update has few calls of each kind per tensor; what has more is a loop that writes elements.
    most = max(LOOPED, UPDATES * (tensors or 0))
    return op.name.startswith(_OPTIMIZER) or (op.name.endswith("_") and op.calls <= most)
