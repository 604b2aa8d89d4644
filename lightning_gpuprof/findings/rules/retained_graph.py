"""The backward pass goes through the same graph more than once, or through a growing one.

## What it measures
From a trace: how often the nodes of the autograd graph run per step, against how often the
operators ran that made them (`repeated_frac`). From the steps: a backward pass that takes longer
and longer, unless a look found that no graph outlives its step.

## Why it matters
`backward(retain_graph=True)` for each of several losses passes through what they share once for
each. A hidden state or a loss that is carried over without `detach()` drags all earlier steps'
graphs along.

## What to do
Add the losses and call `backward()` once, without `retain_graph`. With several optimizers, which
step apart, detach what one's loss need not go through. Detach what is carried from step to step.

## Thresholds
`MIN_REPEATED`: a tenth of the nodes running twice cannot come from counting. Gradient penalties
differentiate twice on purpose: where second-order nodes run, the rule is silent. `MIN_RISE`: a pass
that drags earlier steps along grows by more, and by more than the model's input. The saving is the
repeated passes: the nodes that no arrow from an operator reaches, the gradients that are added to
others, and of what the backward pass takes beside its nodes each pass's share
(`savings/graph_passes.py`); or what the growth has cost. Severity: the common scale
(`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.growth import Growth
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.analysis.savings.graph_nodes import graphs_are_kept, second_order
from lightning_gpuprof.analysis.savings.graph_passes import graph_passes
from lightning_gpuprof.analysis.savings.hidden import around
from lightning_gpuprof.analysis.savings.host_work import parameter_tensors, unscaled_frac
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
from lightning_gpuprof.findings.no_trace import OPERATORS, no_trace
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import RETAINED_NOTE
from lightning_gpuprof.units import duration

ID = "retained-graph"
EFFORT = Effort(Horizon.QUICK, "one backward for the sum of the losses", "none: gradients add up")
MIN_REPEATED = 0.10
MIN_RISE = 0.2
EXPLAINS = ("memory-growth",)
"""Graphs of earlier steps are kept, and the backward pass goes through them."""

_ADD_UP = "Add the losses and call backward once, without retain_graph=True."
_ADDED_UP = "(loss_a + loss_b).backward()  # or manual_backward(loss_a + loss_b)"
_DETACH = (
    "Detach what the loss of one optimizer need not go through, such as a generator's samples in "
    "the loss of its discriminator: then no graph has to be kept for the next backward. Losses of "
    "the same optimizer are added, and gone through once."
)
_DETACHED = """\
loss_d = criterion(self.discriminator(fake.detach()), zeros)
self.manual_backward(loss_d)  # without retain_graph=True"""


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where the graph is kept."""
    backward, step_ns = run.per_step(Phase.BACKWARD), run.step_ns
    if backward is None or step_ns is None:
        return Abstained(ID, "no step's backward pass was measured")
    grown = run.growing.get(Phase.BACKWARD)
    rises = grown is not None and grown.last - grown.first >= MIN_RISE * max(1, grown.first)
    if grown is not None and rises and graphs_are_kept(run.notes) is not False:
        return _growing(grown, step_ns)
    facts = trace_facts(run)
    noted = any(note.name == RETAINED_NOTE and note.value for note in run.notes)
    if facts is None or not facts.rows("operators"):
        if noted:
            return _kept(step_ns)
        return no_trace(ID, OPERATORS)
    if second_order(facts):
        return None
    passes = graph_passes(facts, parameter_tensors(run))
    if passes.repeated_frac < MIN_REPEATED:
        return _kept(step_ns) if noted else None
    # By the median step, to which the trace's times are scaled.
    most_ns = passes.cost_ns(backward.median_ns)
    least_ns = passes.cost_ns(backward.median_ns, scale=unscaled_frac(run, facts))
    cost_ns = (least_ns + most_ns) // 2
    several = len(run.start.model.get("optimizers") or ()) > 1
    saving = Range(low=around(least_ns)[0], high=min(backward.mean_ns, around(most_ns)[1]))
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"{duration(cost_ns)} of each step goes through parts of the autograd graph that "
        f"have run before ({passes.mean_passes:.1f} passes on average)",
        advice=_DETACH if several else _ADD_UP,
        evidence={
            "repeated_frac": passes.repeated_frac,
            "repeated_ns": cost_ns,
            "backward_ns": backward.mean_ns,
            "passes_count": round(passes.mean_passes, 2),
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.9 if noted else 0.7,
        where=(Where(phase=Phase.BACKWARD.value),),
        change=_DETACHED if several else _ADDED_UP,
    )


def _growing(grown: Growth, step_ns: int) -> Finding:
    # From what growing has cost on average so far to what it costs a step by now.
    now_ns = grown.before_first + grown.last - grown.first
    cost_ns = grown.before_first + grown.mean_above_first
    saving = Range(low=min(cost_ns, now_ns), high=now_ns)
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"The backward pass went from {duration(grown.first)} to {duration(grown.last)} in "
        f"this "
        "run: its graph grows from step to step",
        advice="Detach what is carried from one step to the next (hidden states, summed losses).",
        evidence={
            "backward_first_ns": grown.first,
            "backward_last_ns": grown.last,
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.7,
        where=(Where(phase=Phase.BACKWARD.value),),
        change="self.hidden = hidden.detach()",
        explains=EXPLAINS,
    )


def _kept(step_ns: int) -> Finding:
    return Finding(
        id=ID,
        severity=Severity.INFO,
        title="backward keeps its graph (retain_graph=True), and with it all activations",
        advice="Leave retain_graph=True out where the graph is gone through only once.",
        evidence={"step_ns": step_ns},
        saving_ns=Range(low=0, high=0),
        confidence=0.9,
        where=(Where(phase=Phase.BACKWARD.value),),
        change="loss.backward()  # without retain_graph=True",
    )
