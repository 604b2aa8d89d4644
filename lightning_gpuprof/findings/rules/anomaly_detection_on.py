"""Autograd's anomaly detection is on.

## What it measures
Whether the Trainer's `detect_anomaly` (or `torch.autograd.set_detect_anomaly`) is on, in the
forward pass, in the backward pass or in both, in two batches in a row and not off again later, and,
from a trace, how many nodes the autograd graph has per step and what the searches for NaN take.

## Why it matters
For every operator of the forward pass it formats the whole Python stack, and in the backward pass
it searches every gradient for NaN, which makes the host wait for a GPU each time.

## What to do
Turn it off, and on again only to find a NaN that was seen. On around `loss.backward()` alone it
does not even name the line of a NaN: stacks are written down in the forward pass.

## Thresholds
The cost is read off the trace: the stack is formatted inside the operator that makes a node, so
that most of them take little else (`USUAL`: the median of an operator's time per node, times the
nodes), and the searches for NaN are operators of their own (`aten::isnan`); `ERROR` to both sides.
Stacks differ in depth, and the cheapest operators' are no measure of the deepest: `HIGH`, unless
samples found the forward pass formatting stacks (`MIN_SAMPLES` of it), deep ones too: their share
and the searches are then within the bounds. That share is the least: who formats holds the
interpreter's lock, and a sample that was due meanwhile is taken when the operator lets it go, just
behind the formatting. So at most all samples in operators and modules are of it (`MAY_BE`; in a
program where 88 % of forward went with it 69 % were seen formatting). Where the trace has no such
operators, a node costs `NODE_LOW_NS` to `NODE_HIGH_NS` (docs/adr/0031). Where it is on in one pass
alone, only the stacks or only the searches count, these at most as recorded (`unscaled_frac`).
Without a trace the saving is between nothing and half of the step. Severity: the common scale
(`findings/grade.py`), and at least a warning: nobody trains with it on purpose.
"""

from itertools import accumulate

from lightning_gpuprof.analysis.run.host_lines import host_lines
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import TraceFacts, trace_facts
from lightning_gpuprof.analysis.savings.graph_nodes import graph_nodes
from lightning_gpuprof.analysis.savings.host_work import (
    COMPUTE,
    SEARCHED,
    anomaly_on,
    unscaled_frac,
)
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import (
    Abstained,
    Effort,
    Finding,
    Horizon,
    Range,
    Severity,
    Where,
)
from lightning_gpuprof.records.anomaly_mode import AnomalyMode, anomaly_mode
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import ANOMALY_NOTE
from lightning_gpuprof.units import duration

ID = "anomaly-detection-on"
EFFORT = Effort(Horizon.QUICK, "one argument or line", "a NaN's place is not named")
NODE_LOW_NS, NODE_HIGH_NS = 80_000, 200_000
USUAL = 0.5
ERROR, HIGH = 0.2, 1.5
MIN_SAMPLES = 30
MAY_BE = ("traceback", None, "torch", "model")
"""Kinds of samples that may be formatting, one moment later."""
SEARCHES = ("aten::isnan", SEARCHED)
_PASSES = {(True, False): " in the forward pass", (False, True): " in the backward pass"}


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where anomaly detection is on."""
    on = anomaly_on(run)
    if run.step_ns is None or on is None:
        return Abstained(ID, "the run's records do not say whether it is on")
    if not on:
        return None
    by_trainer = bool(run.start.trainer.get("detect_anomaly"))
    noted = None if by_trainer else anomaly_mode(run.notes)
    if noted is None and not by_trainer and any(note.name == ANOMALY_NOTE for note in run.notes):
        return None  # it was on for a while, and off again
    # What nobody noted the trace has shown: searches.
    mode = noted or AnomalyMode(forward=by_trainer, backward=True)
    is_on = {Phase.FORWARD: mode.forward, Phase.BACKWARD: mode.backward}
    phases = [phase for phase in COMPUTE if is_on[phase]]
    compute = [stats for phase in phases if (stats := run.per_step(phase)) is not None]
    most = sum(stats.mean_ns for stats in compute)
    facts = trace_facts(run)
    seen = _formatting(run) if mode.forward else None
    nodes, searches, cost = 0.0, 0.0, None
    if facts:
        nodes, searches, cost = _cost(
            facts, mode, sampled=seen is not None, unscaled=unscaled_frac(run, facts)
        )
    if nodes and not mode.forward and not searches:
        return None  # it was on in a look, and no longer in the steps that were recorded
    saving = Range(low=0, high=min(most, run.step_ns // 2))
    evidence: dict[str, int | float] = {"step_ns": run.step_ns}
    if cost is not None:
        evidence["graph_nodes_count"] = round(nodes)
        saving = Range(low=min(round((1 - ERROR) * most), cost.low), high=min(most, cost.high))
    if seen is not None:
        low = max(saving.low, seen.low + round((1 - ERROR) * searches))
        high = max(saving.high, seen.high + round((1 + ERROR) * searches))
        saving = Range(low=min(low, most), high=min(high, most))
    severity = grade(saving, run.step_ns)
    return Finding(
        id=ID,
        severity=Severity.WARNING if severity is Severity.INFO else severity,
        title=f"Anomaly detection is on{_PASSES.get((mode.forward, mode.backward), '')}"
        + (f" and costs up to {duration(saving.high)} of each step" if cost else ""),
        advice="Turn anomaly detection off, and on only to find a NaN that you have seen.",
        evidence=evidence,
        saving_ns=saving,
        confidence=0.9 if cost else 0.7,
        where=_line(mode) + tuple(Where(phase=phase.value) for phase in phases),
        change=_change(mode, by_trainer=by_trainer),
    )


def _line(mode: AnomalyMode) -> tuple[Where, ...]:
    return (Where.at(mode.place),) if mode.place else ()


def _change(mode: AnomalyMode, *, by_trainer: bool) -> str:
    # The Trainer's own argument turns off what was on before a fit, and nothing that is turned on
    # within it.
    if by_trainer or mode.place is None:
        return "Trainer(..., detect_anomaly=False)"
    return "torch.autograd.set_detect_anomaly(False)  # or nothing of it at that line"


def _formatting(run: RunResults) -> Range | None:
    """Return what formatting stacks took of the forward pass, by samples of the stack."""
    lines, forward = host_lines(run.notes), run.per_step(Phase.FORWARD)
    if lines is None or forward is None:
        return None
    count = sum(one.count for one in lines.of(Phase.FORWARD, ("traceback",)))
    if lines.by_phase.get(Phase.FORWARD.value, 0) < MIN_SAMPLES or not count:
        return None
    low, _ = lines.interval(count, Phase.FORWARD)
    most = sum(one.count for one in lines.of(Phase.FORWARD, MAY_BE))
    _, high = lines.interval(most, Phase.FORWARD)
    return Range(low=round(low * forward.mean_ns), high=round(high * forward.mean_ns))


def _cost(
    facts: TraceFacts, mode: AnomalyMode, *, sampled: bool, unscaled: float
) -> tuple[float, float, Range | None]:
    """Return the nodes made per step, what searches for NaN take, and what both cost.

    Args:
        facts: Of the trace.
        mode: Whether there are stacks, or searches, alone.
        unscaled: By how much times in the trace are too short at most (`host_work.py`).
        sampled: Samples say what deep stacks take.
    """
    made = graph_nodes(facts)
    count = sum(one.node.calls for one in made)
    searching = [op for name, op in facts.operators.items() if name in SEARCHES]
    search_ns = sum(op.total_ns for op in searching) if mode.backward else 0.0
    if not count:
        return 0.0, search_ns, None
    if not mode.forward:
        if not search_ns:
            return count, 0.0, None
        most_ns = (1 + ERROR) * search_ns * unscaled
        return count, search_ns, Range(low=round((1 - ERROR) * search_ns), high=round(most_ns))
    known = sorted(
        (one.forward.self_ns / one.node.calls, one.node.calls)
        for one in made
        if one.forward is not None and one.node.calls
    )
    if not known or (mode.backward and not search_ns):
        cost = Range(low=round(NODE_LOW_NS * count), high=round(NODE_HIGH_NS * count))
        return count, search_ns, cost
    ends = list(accumulate(calls for _, calls in known))
    each_ns = next(ns for (ns, _), end in zip(known, ends, strict=True) if end >= USUAL * ends[-1])
    cost_ns = each_ns * count + search_ns
    most_ns = ((1 + ERROR) if sampled else HIGH) * cost_ns
    return count, search_ns, Range(low=round((1 - ERROR) * cost_ns), high=round(most_ns))
