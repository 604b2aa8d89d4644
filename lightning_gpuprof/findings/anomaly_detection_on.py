"""Autograd's anomaly detection is on.

## What it measures
Whether the Trainer's `detect_anomaly` (or `torch.autograd.set_detect_anomaly`) is on, and, from a
trace, how many nodes the autograd graph has per step.

## Why it matters
For every operator of the forward pass it formats the whole Python stack, and in the backward pass
it searches every gradient for NaN, which makes the host wait for a GPU each time.

## What to do
Turn it off, and on again only to find a NaN that was seen.

## Thresholds
`NODE_LOW_NS`, `NODE_HIGH_NS`: cost of one node, measured inside a Trainer (docs/adr/0031: 130 us,
torch 2.13, a stack of 60 frames; it grows with the depth of the stack and falls with a faster
core). Without a trace, between nothing and half of the step. Severity: the common scale
(`findings/grade.py`), and at least a warning: nobody trains with it on purpose.
"""

from lightning_gpuprof.analysis.host_work import COMPUTE
from lightning_gpuprof.analysis.run import RunResults
from lightning_gpuprof.analysis.trace_facts import TraceFacts, trace_facts
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
from lightning_gpuprof.units import duration

ID = "anomaly-detection-on"
EFFORT = Effort(Horizon.QUICK, "one argument of the Trainer", "a NaN's place is not named")
NODE_LOW_NS, NODE_HIGH_NS = 80_000, 200_000
NODE = "autograd::engine::evaluate_function: "
NOTE = "anomaly_mode"
_ACCUMULATE = "torch::autograd::AccumulateGrad"


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where anomaly detection is on."""
    notes = [note.value for note in run.notes if note.name == NOTE]
    known = run.start.trainer.get("detect_anomaly")
    if run.step_ns is None or (known is None and not notes):
        return Abstained(ID, "the run's records do not say whether it is on")
    if not known and not any(notes):
        return None
    compute = [stats for phase in COMPUTE if (stats := run.per_step(phase)) is not None]
    most = sum(stats.mean_ns for stats in compute)
    facts = trace_facts(run)
    nodes = _nodes(facts) if facts else None
    saving = Range(low=0, high=min(most, run.step_ns // 2))
    evidence: dict[str, int | float] = {"step_ns": run.step_ns}
    if nodes:
        evidence["graph_nodes_count"] = round(nodes)
        saving = Range(
            low=min(round(0.8 * most), round(NODE_LOW_NS * nodes)),
            high=min(most, round(NODE_HIGH_NS * nodes)),
        )
    severity = grade(saving, run.step_ns)
    return Finding(
        id=ID,
        severity=Severity.WARNING if severity is Severity.INFO else severity,
        title="Anomaly detection is on"
        + (f" and costs up to {duration(saving.high)} of each step" if nodes else ""),
        advice="Turn anomaly detection off; turn it on only to find a NaN that was seen.",
        evidence=evidence,
        saving_ns=saving,
        confidence=0.9 if nodes else 0.7,
        where=tuple(Where(phase=phase.value) for phase in COMPUTE),
        change="Trainer(..., detect_anomaly=False)",
    )


def _nodes(facts: TraceFacts) -> float:
    """Return the nodes that an operator made per step; gradients' ends are made only once."""
    return sum(
        op.calls
        for name, op in facts.operators.items()
        if name.startswith(NODE) and not name.endswith(_ACCUMULATE)
    )
