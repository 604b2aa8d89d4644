"""Autograd's anomaly detection is on.

## Symptom
The Trainer has `detect_anomaly=True`, or the backward pass searches for NaN (`aten::_is_any_true`).

## Why
Anomaly detection formats the whole Python stack for every operator of the forward pass. In the
backward pass it searches every gradient for NaN, and each search makes the host wait for the GPU.

## Fix
```python
Trainer(detect_anomaly=True)  # before
Trainer(detect_anomaly=False)  # after; on again only to find a NaN that you have seen
```

## How it is measured
The share of forward that formats stacks comes from stack samples. Without samples it is estimated
from a trace, at 80 to 200 µs per node of the autograd graph. The searches for NaN in the trace are
added to it.

## Limits
Without samples and without a trace, the saving lies between nothing and half of the step.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.analysis.savings.graph_passes import graph_nodes
from lightning_gpuprof.analysis.savings.host_work import COMPUTE, SEARCHED, anomaly_on
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Range, Severity
from lightning_gpuprof.findings.rule import evidence_of, measured, rule
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import interval_text

NODE_LOW_NS, NODE_HIGH_NS = 80_000, 200_000
"""The least and the most that formatting the stack for a node takes (docs/adr/0031)."""
ERROR = 0.2
MIN_SAMPLES = 30
MAY_BE = ("traceback", None, "torch", "model")
"""Kinds of samples that may stand for formatting: a sample that is due meanwhile comes right
after."""
SEARCHES = ("aten::isnan", SEARCHED)
EFFORT = Effort(Horizon.QUICK, "one argument or line", "a NaN's place is not named")


@rule(id="anomaly-detection-on", needs=("training", "steps"), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the finding if anomaly detection is on."""
    step_ns, facts = measured(run.step_ns), trace_facts(run)
    if not anomaly_on(run):
        return None
    most = sum(stats.mean_ns for phase in COMPUTE if (stats := run.per_step(phase)) is not None)
    formatting, searches_ns = Range(0, min(most, step_ns // 2)), 0.0
    nodes = sum(op.calls for op in graph_nodes(facts)) if facts else 0
    if facts is not None and nodes:
        searches_ns = sum(op.total_ns for op in facts.operators.values() if op.name in SEARCHES)
        formatting = Range(round(NODE_LOW_NS * nodes), round(NODE_HIGH_NS * nodes))
    sampled = _formatting(run)
    formatting = sampled or formatting
    low = formatting.low + (1 - ERROR) * searches_ns
    high = formatting.high + (1 + ERROR) * searches_ns
    saving = Range(low=min(round(low), most), high=min(round(high), most))
    severity, sure = grade(saving, step_ns), bool(nodes or sampled)
    costs = f" and costs {interval_text(0, saving.high)} of each step" if sure else ""
    return Finding(
        severity=Severity.WARNING if severity is Severity.INFO else severity,
        title=f"Anomaly detection is on{costs}",
        advice="Turn anomaly detection off (also torch.autograd.set_detect_anomaly). Turn it on "
        "only to find a NaN that you have seen.",
        evidence=evidence_of(graph_nodes_count=round(nodes) or None),
        saving_ns=saving,
        cause_ns=saving,
        confidence=0.9 if sure else 0.7,
        places=tuple(Place(phase=phase.value) for phase in COMPUTE),
        change="Trainer(..., detect_anomaly=False)",
        setting="detect_anomaly=False",
        explains=("host-bound", "host-sync", "slow-python"),
    )


def _formatting(run: RunResults) -> Range | None:
    """Return the time that forward spends formatting stacks, judging by samples of the stack."""
    lines, forward = run.lines, run.per_step(Phase.FORWARD)
    if lines is None or forward is None:
        return None
    formats = lines.of(Phase.FORWARD, ("traceback",))
    if lines.by_phase.get(Phase.FORWARD.value, 0) < MIN_SAMPLES or not formats:
        return None
    most = lines.of(Phase.FORWARD, MAY_BE)
    low, high = lines.interval(formats, Phase.FORWARD)[0], lines.interval(most, Phase.FORWARD)[1]
    return Range(low=round(low * forward.mean_ns), high=round(high * forward.mean_ns))
