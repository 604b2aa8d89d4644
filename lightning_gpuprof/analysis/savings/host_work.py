"""How much of a step is the host's own work: Python, dispatch and operators too small to matter."""

from dataclasses import dataclass

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import Operator, TraceFacts, grown_ns, trace_facts
from lightning_gpuprof.analysis.trace.operators import ENGINE, STEP, computes
from lightning_gpuprof.records.phases import Phase

COMPUTE = (Phase.FORWARD, Phase.BACKWARD)
"""Where a user's own operators are; the optimizer's have a finding of their own."""
THIN_NS = 10_000
"""A shorter operator takes about as long as its dispatch from Python: it is thin."""
CALLS_PER_TENSOR = 20
"""Usual computing calls, forward and backward, per parameter tensor: 7 to 16 were measured
(docs/adr/0031). More come from loops."""
LOOPED = 100
"""An operator with this many calls per step is in a loop, however long each takes."""
LOOP_READS = 20
"""A loop that reads value after value reads at least tens of them a step."""
LOOP_LOW_FRAC = 0.6
"""Least part of a loop's overhead that one operator over all elements removes; 0.8 and more were
measured (docs/adr/0031), on traces whose own cost is not known to a fifth."""
THIN_COUNT_FRAC = 0.5
"""Share of thin kernels from which launches are the matter, not how late the host is."""
READ_SHARE = 0.10
"""A loop around reads of values has at most ten operators per read."""
MOSTLY = 0.5
READ = "aten::item"
SEARCHED = "aten::_is_any_true"
"""Ends anomaly detection's search of a gradient for NaN; no other backward pass calls it."""
RECURRENT = ("aten::gru", "aten::lstm", "aten::rnn_tanh", "aten::rnn_relu")
"""One call of these is a recurrent layer's whole sequence: the loop inside is torch's own."""
TENSORS_PER_LAYER = 2
"""A recurrent layer has at least as many, so more calls than layers mean a loop around one."""


@dataclass(frozen=True)
class HostWork:
    """Forward and backward of a steady step against the time of operators of some length.

    Args:
        heavy_ns: Self time of operators that are not thin.
        forward_operators_ns: Self time of operators outside the autograd graph's nodes.
        thin_calls: Calls per step of thin operators of any kind.
        forward_calls: Those that compute something, outside the autograd graph's nodes.
        usual_calls: `calls` to expect of the model's size; None where that is unknown.
        looped_ns: Self time of operators that are not thin, but called `LOOPED` times or more.
        recurrent_frac: Share of forward, and so of backward, inside recurrent layers.
    """

    compute_ns: int
    heavy_ns: int
    forward_operators_ns: int
    calls: int
    thin_calls: int
    forward_calls: int
    usual_calls: int | None
    looped_ns: int
    reads: int
    read_ns: int
    worst: str | None
    recurrent_frac: float

    @property
    def overhead_ns(self) -> int:
        """Python, dispatch and thin operators."""
        return max(0, self.compute_ns - self.heavy_ns)

    @property
    def repeated_ns(self) -> int:
        """The overhead of calls above the usual number, outside recurrent layers."""
        above = max(0, self.calls - (self.usual_calls or 0))
        return round(self.own_frac * above / max(1, self.calls) * self.overhead_ns)

    @property
    def loops_most_ns(self) -> int:
        """The overhead of loops, with the longer operators in them."""
        return self.repeated_ns + round(self.own_frac * self.looped_ns)

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
    # An optimizer's own operators are not the model's, those of hooks right before it neither.
    every = [op for op in facts.operators.values() if op.calls > op.update_calls]
    every = [op for op in every if not op.name.startswith(STEP)]
    thin = [op for op in every if op.self_ns < THIN_NS * op.calls]
    heavy = [op for op in every if op not in thin]
    nodes_ns = sum(op.total_ns for op in facts.operators.values() if op.name.startswith(ENGINE))
    read = next((op for op in every if op.name == READ), None)
    worst = max((op for op in thin if computes(op.name)), key=_own_calls, default=None)
    return HostWork(
        compute_ns=max(0, sum(stats.median_ns for stats in per_step) - _not_computed_ns(run)),
        heavy_ns=round(sum(map(_own_ns, heavy))),
        forward_operators_ns=max(0, round(sum(map(_own_ns, every)) - nodes_ns)),
        calls=round(sum(_own_calls(op) for op in every if computes(op.name))),
        thin_calls=round(sum(map(_own_calls, thin))),
        forward_calls=round(
            sum(max(0.0, _own_calls(op) - op.backward_calls) for op in thin if computes(op.name))
        ),
        usual_calls=None if tensors is None else CALLS_PER_TENSOR * tensors,
        looped_ns=round(sum(_own_ns(op) for op in heavy if _own_calls(op) >= LOOPED)),
        reads=round(_own_calls(read)) if read else 0,
        read_ns=round(read.total_ns * _own_calls(read) / read.calls) if read else 0,
        worst=worst.name if worst else None,
        recurrent_frac=_recurrent_frac(run, facts, tensors),
    )


def _not_computed_ns(run: RunResults) -> int:
    """Return what growth and waits for other threads add to forward and backward."""
    since = grown_ns(run)
    grown = sum(since.get(phase, 0) for phase in COMPUTE)
    lines, forward = run.lines, run.per_step(Phase.FORWARD)
    if lines is None or forward is None:
        return grown
    seen = lines.of(Phase.FORWARD)
    waiting = sum(one.count for one in seen if one.waits or one.kind == "workers")
    share = waiting / max(1, lines.by_phase.get(Phase.FORWARD.value, 0))
    return grown + round(share * forward.median_ns)


def _recurrent_frac(run: RunResults, facts: TraceFacts, tensors: int | None) -> float:
    forward = run.per_step(Phase.FORWARD)
    layers = [op for name, op in facts.operators.items() if name in RECURRENT]
    most = LOOPED if tensors is None else tensors / TENSORS_PER_LAYER
    if forward is None or not forward.mean_ns or sum(op.calls for op in layers) > most:
        return 0.0
    return min(1.0, sum(op.total_ns for op in layers) / forward.mean_ns)


def computes_on_all_cores(run: RunResults) -> bool | None:
    """Tell whether training on a CPU keeps every core busy; None where no trace says so.

    It does if torch may use all cores and most of the computing is in operators long enough to be
    divided among them.
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


def anomaly_on(run: RunResults) -> bool:
    """Tell whether autograd's anomaly detection was on, as was read or as a trace shows."""
    facts = trace_facts(run)
    search = facts.operators.get(SEARCHED) if facts else None
    if search is not None and search.backward_calls:
        return True
    return bool(run.start.trainer.get("detect_anomaly")) or run.facts.anomaly_mode is not None


def _own_calls(op: Operator) -> float:
    return max(0.0, op.calls - op.update_calls)


def _own_ns(op: Operator) -> float:
    return max(0.0, op.self_ns - op.update_self_ns)
