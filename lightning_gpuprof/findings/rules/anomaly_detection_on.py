"""Autograd's anomaly detection is on.

## Symptom
`Trainer(detect_anomaly=True)`, or searches for NaN (`aten::_is_any_true`) in the backward pass.

## Why
Every operator of the forward pass has the whole Python stack formatted, and the backward pass
searches every gradient for NaN, which makes the host wait for a GPU each time.

## Fix
```python
Trainer(detect_anomaly=True)  # before
Trainer(detect_anomaly=False)  # after; on again only to find a NaN that you have seen
```

## How it is measured
From a trace: the operators' median time per node of the graph, where the stack is formatted, times
the nodes, plus the searches; from samples: the share of forward that formats stacks.

## Limits
Without a trace the saving lies between nothing and half of the step.
"""

from itertools import accumulate

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import TraceFacts, trace_facts
from lightning_gpuprof.analysis.savings.graph_nodes import graph_nodes
from lightning_gpuprof.analysis.savings.host_work import COMPUTE, SEARCHED, anomaly_on
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Range, Severity, Where
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration

NODE_LOW_NS, NODE_HIGH_NS = 80_000, 200_000
"""Of a node, where the trace does not tell (docs/adr/0031)."""
USUAL = 0.5
ERROR, HIGH = 0.2, 1.5
"""Stacks differ in depth: the median operator's is no measure of the deepest."""
MIN_SAMPLES = 30
MAY_BE = ("traceback", None, "torch", "model")
"""Kinds of samples that may be formatting: one that was due meanwhile is taken right after it."""
SEARCHES = ("aten::isnan", SEARCHED)
EFFORT = Effort(Horizon.QUICK, "one argument or line", "a NaN's place is not named")


@rule(id="anomaly-detection-on", needs=("steps",), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return a finding where anomaly detection is on."""
    step_ns, facts = measured(run.step_ns), trace_facts(run)
    if not anomaly_on(run):
        return None
    most = sum(stats.mean_ns for phase in COMPUTE if (stats := run.per_step(phase)) is not None)
    saving, evidence = Range(low=0, high=min(most, step_ns // 2)), {"step_ns": step_ns}
    sampled = _formatting(run)
    nodes, searches, cost = _cost(facts, sampled=sampled is not None) if facts else (0, 0, None)
    if cost is not None:
        evidence["graph_nodes_count"] = round(nodes)
        saving = Range(low=min(round((1 - ERROR) * most), cost.low), high=min(most, cost.high))
    if sampled is not None:
        low = max(saving.low, sampled.low + round((1 - ERROR) * searches))
        high = max(saving.high, sampled.high + round((1 + ERROR) * searches))
        saving = Range(low=min(low, most), high=min(high, most))
    severity = grade(saving, step_ns)
    costs = f" and costs up to {duration(saving.high)} of each step" if cost else ""
    return Finding(
        severity=Severity.WARNING if severity is Severity.INFO else severity,
        title=f"Anomaly detection is on{costs}",
        advice="Turn anomaly detection off (also torch.autograd.set_detect_anomaly), and on only "
        "to find a NaN that you have seen.",
        evidence=evidence,
        saving_ns=saving,
        confidence=0.9 if cost else 0.7,
        where=tuple(Where(phase=phase.value) for phase in COMPUTE),
        change="Trainer(..., detect_anomaly=False)",
        explains=("host-bound", "host-sync", "slow-python"),
    )


def _formatting(run: RunResults) -> Range | None:
    """Return what formatting stacks took of the forward pass, by samples of the stack."""
    lines, forward = run.lines, run.per_step(Phase.FORWARD)
    if lines is None or forward is None:
        return None
    count = sum(one.count for one in lines.of(Phase.FORWARD, ("traceback",)))
    if lines.by_phase.get(Phase.FORWARD.value, 0) < MIN_SAMPLES or not count:
        return None
    low, _ = lines.interval(count, Phase.FORWARD)
    most = sum(one.count for one in lines.of(Phase.FORWARD, MAY_BE))
    _, high = lines.interval(most, Phase.FORWARD)
    return Range(low=round(low * forward.mean_ns), high=round(high * forward.mean_ns))


def _cost(facts: TraceFacts, *, sampled: bool) -> tuple[float, float, Range | None]:
    """Return the nodes made per step, what searches for NaN take, and what both cost.

    Args:
        facts: Of the trace.
        sampled: Samples say what deep stacks take.
    """
    made = graph_nodes(facts)
    count = sum(one.node.calls for one in made)
    search_ns = sum(op.total_ns for name, op in facts.operators.items() if name in SEARCHES)
    if not count:
        return 0.0, search_ns, None
    known = sorted(
        (one.forward.self_ns / one.node.calls, one.node.calls)
        for one in made
        if one.forward is not None
    )
    if not known or not search_ns:
        cost = Range(low=round(NODE_LOW_NS * count), high=round(NODE_HIGH_NS * count))
        return count, search_ns, cost
    ends = list(accumulate(calls for _, calls in known))
    each_ns = next(ns for (ns, _), end in zip(known, ends, strict=True) if end >= USUAL * ends[-1])
    cost_ns = each_ns * count + search_ns
    most_ns = ((1 + ERROR) if sampled else HIGH) * cost_ns
    return count, search_ns, Range(low=round((1 - ERROR) * cost_ns), high=round(most_ns))
