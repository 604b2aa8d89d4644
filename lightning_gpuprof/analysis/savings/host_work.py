"""How much of a step is the host's own work: Python, dispatch and very short operators."""

from dataclasses import dataclass

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.settings import settings_of
from lightning_gpuprof.analysis.run.trace_facts import Operator, TraceFacts, grown_ns, trace_facts
from lightning_gpuprof.analysis.trace.operators import ENGINE, STEP, computes
from lightning_gpuprof.records.phases import Phase

COMPUTE = (Phase.FORWARD, Phase.BACKWARD)
"""The phases of the model's operators. The optimizer's operators have a finding of their own."""
SHORT_NS = 10_000
"""An operator under 10 µs takes about as long as its dispatch from Python."""
CALLS_PER_TENSOR = 20
"""Calls of computing operators in forward and backward that are usual per parameter tensor: 7 to 16
were measured (docs/adr/0031). More calls come from loops."""
LOOPED = 100
"""An operator with this many calls per step is called in a loop, however long a call takes."""
LOOP_READS = 20
"""A loop that reads single values reads at least this many per step."""
LOOP_LOW_FRAC = 0.6
"""The least share of a loop's overhead that a single operator over all elements saves. 0.8 and more
were measured (docs/adr/0031), on traces whose own cost is known only to within a fifth."""
SHORT_COUNT_FRAC = 0.5
"""With this share of kernels under 10 µs, the number of launches is the cause, not a late host."""
READ_SHARE = 0.10
"""A loop that reads single values calls at most ten operators per read."""
MOSTLY = 0.5
READ = "aten::item"
SEARCHED = "aten::_is_any_true"
"""The last operator of anomaly detection's search of a gradient for NaN. Without anomaly detection,
no backward pass calls it."""
RECURRENT = ("aten::gru", "aten::lstm", "aten::rnn_tanh", "aten::rnn_relu")
"""A call of these computes a recurrent layer's whole sequence: the loop is inside torch."""
TENSORS_PER_LAYER = 2
"""A recurrent layer has at least so many parameter tensors, which limits the number of layers. More
calls than layers mean that a layer is called in a loop."""


@dataclass(frozen=True)
class HostWork:
    """The host's work in forward and backward of a steady step, by the length of operators.

    Operators whose calls take under `SHORT_NS` of self time are short, all others long.

    Args:
        compute_ns: Median time of forward and backward, without growth and waits for threads.
        long_ns: Self time of long operators.
        forward_operators_ns: Self time of operators outside the autograd graph's nodes.
        calls: Calls per step of operators that compute something.
        short_calls: Calls per step of short operators of any kind.
        forward_calls: Calls of short operators that compute something, outside the graph's nodes.
        usual_calls: The `calls` that are usual for the model's size; None if that is unknown.
        looped_ns: Self time of long operators that are called `LOOPED` times or more.
        reads: How often a single value of a tensor is read per step (`READ`).
        read_ns: The time of these reads.
        worst: The short operator with the most calls that computes something.
        recurrent_frac: Share of forward, and so of backward, inside recurrent layers.
    """

    compute_ns: int
    long_ns: int
    forward_operators_ns: int
    calls: int
    short_calls: int
    forward_calls: int
    usual_calls: int | None
    looped_ns: int
    reads: int
    read_ns: int
    worst: str | None
    recurrent_frac: float

    @property
    def overhead_ns(self) -> int:
        """Time of Python, dispatch and short operators."""
        return max(0, self.compute_ns - self.long_ns)

    @property
    def repeated_ns(self) -> int:
        """The overhead of calls above the usual number, outside recurrent layers."""
        above = max(0, self.calls - (self.usual_calls or 0))
        return round(self.own_frac * above / max(1, self.calls) * self.overhead_ns)

    @property
    def loops_most_ns(self) -> int:
        """The most that loops cost: their overhead, and the long operators in them."""
        return self.repeated_ns + round(self.own_frac * self.looped_ns)

    @property
    def own_frac(self) -> float:
        """The share of forward and backward outside recurrent layers."""
        return 1.0 - self.recurrent_frac


def reads_in_a_loop(work: HostWork | None) -> bool:
    """Return whether single values are read so often that the cost must be a loop around them."""
    return (
        work is not None
        and work.reads >= LOOP_READS
        and work.reads >= READ_SHARE * (work.calls - (work.usual_calls or 0))
    )


def host_work(run: RunResults) -> HostWork | None:
    """Measure the host's work by the last analysed trace; None if there is none."""
    facts = trace_facts(run)
    per_step = [stats for phase in COMPUTE if (stats := run.per_step(phase)) is not None]
    if facts is None or not facts.analysis.operators or not per_step:
        return None
    tensors = parameter_tensors(run)
    # Operators of the optimizer, and of hooks right before it, are not the model's.
    operators = [
        op
        for op in facts.operators.values()
        if op.calls > op.update_calls and not op.name.startswith(STEP)
    ]
    short = [op for op in operators if op.self_ns < SHORT_NS * op.calls]
    long = [op for op in operators if op not in short]
    nodes_ns = sum(op.total_ns for op in facts.operators.values() if op.name.startswith(ENGINE))
    read = next((op for op in operators if op.name == READ), None)
    worst = max((op for op in short if computes(op.name)), key=_own_calls, default=None)
    return HostWork(
        compute_ns=max(0, sum(stats.median_ns for stats in per_step) - _not_computed_ns(run)),
        long_ns=round(sum(map(_own_ns, long))),
        forward_operators_ns=max(0, round(sum(map(_own_ns, operators)) - nodes_ns)),
        calls=round(sum(_own_calls(op) for op in operators if computes(op.name))),
        short_calls=round(sum(map(_own_calls, short))),
        forward_calls=round(
            sum(max(0.0, _own_calls(op) - op.backward_calls) for op in short if computes(op.name))
        ),
        usual_calls=None if tensors is None else CALLS_PER_TENSOR * tensors,
        looped_ns=round(sum(_own_ns(op) for op in long if _own_calls(op) >= LOOPED)),
        reads=round(_own_calls(read)) if read else 0,
        read_ns=round(read.total_ns * _own_calls(read) / read.calls) if read else 0,
        worst=worst.name if worst else None,
        recurrent_frac=_recurrent_frac(run, facts, tensors),
    )


def _not_computed_ns(run: RunResults) -> int:
    """Return what growth and waits for threads and workers add to forward and backward."""
    growth = grown_ns(run)
    growth_ns = sum(growth.get(phase, 0) for phase in COMPUTE)
    lines, forward = run.lines, run.per_step(Phase.FORWARD)
    if lines is None or forward is None:
        return growth_ns
    waiting = sum(
        line.count for line in lines.of(Phase.FORWARD) if line.waits or line.kind == "workers"
    )
    waiting_frac = waiting / max(1, lines.by_phase.get(Phase.FORWARD.value, 0))
    return growth_ns + round(waiting_frac * forward.median_ns)


def _recurrent_frac(run: RunResults, facts: TraceFacts, tensors: int | None) -> float:
    """Return the share of forward inside recurrent layers; 0 if these are called in a loop."""
    forward = run.per_step(Phase.FORWARD)
    layers = [op for name, op in facts.operators.items() if name in RECURRENT]
    most = LOOPED if tensors is None else tensors / TENSORS_PER_LAYER
    if forward is None or not forward.mean_ns or sum(op.calls for op in layers) > most:
        return 0.0
    return min(1.0, sum(op.total_ns for op in layers) / forward.mean_ns)


def computes_on_all_cores(run: RunResults) -> bool | None:
    """Return whether training on a CPU keeps all cores busy; None if that takes a trace.

    It does if torch may use all cores, and most of the computing is in operators that are long
    enough to be divided among them.
    """
    threads, cores = run.start.torch_threads, run.cores
    if run.on_gpu or threads is None or cores is None or threads < cores:
        return False
    work = host_work(run)
    return None if work is None else work.long_ns >= MOSTLY * work.compute_ns


def parameter_tensors(run: RunResults) -> int | None:
    """Return the number of parameter tensors; None if it was not recorded."""
    dtypes = settings_of(run.start).dtypes
    return sum(dtypes.values()) if dtypes else None


def anomaly_on(run: RunResults) -> bool:
    """Return whether autograd's anomaly detection was on, by the records or by a trace."""
    facts = trace_facts(run)
    search = facts.operators.get(SEARCHED) if facts else None
    if search is not None and search.backward_calls:
        return True
    return settings_of(run.start).detect_anomaly or run.facts.anomaly_mode is not None


def _own_calls(op: Operator) -> float:
    """Return the calls outside the optimizer's update."""
    return max(0.0, op.calls - op.update_calls)


def _own_ns(op: Operator) -> float:
    """Return the self time outside the optimizer's update."""
    return max(0.0, op.self_ns - op.update_self_ns)
