"""The backward pass runs the same graph more than once, or a graph that grows.

## Symptom
Nodes of the autograd graph run more often than the operators that made them, or the backward pass
takes longer and longer while memory grows.

## Why
If `backward(retain_graph=True)` is called for several losses, it runs their shared part once per
loss. A state that is carried over to the next step without `detach()` keeps the graphs of earlier
steps.

## Fix
```python
loss_a.backward(retain_graph=True); loss_b.backward()  # before
(loss_a + loss_b).backward()  # after
self.hidden = hidden.detach()
```

With several optimizers, detach what a loss does not train.

## How it is measured
`repeated_frac` compares the calls of graph nodes in a trace with the calls of their operators. A
backward pass that grows by a fifth or more is reported too if memory grows with it, because graphs
that are kept take memory.

## Limits
The rule is silent if gradients are differentiated again (gradient penalties).
"""

from lightning_gpuprof.analysis.run.growth import Growth
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.settings import settings_of
from lightning_gpuprof.analysis.run.trace_facts import TraceFacts, trace_facts
from lightning_gpuprof.analysis.savings.graph_passes import graph_nodes, graph_passes, second_order
from lightning_gpuprof.analysis.savings.hidden import around
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Range
from lightning_gpuprof.findings.rule import rule
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration

MIN_REPEATED = 0.10
MIN_RISE = 0.2
RETAINED = "retain_graph=True"
ADD_UP = "Add the losses and call backward once, without retain_graph=True."
ADDED_UP = "(loss_a + loss_b).backward()  # or manual_backward(loss_a + loss_b)"
DETACH = (
    "Detach what one optimizer's loss does not train, such as generated samples in the "
    "discriminator's loss. Add losses of the same optimizer and call backward once."
)
DETACHED = """\
loss_d = criterion(self.discriminator(fake.detach()), zeros)
self.manual_backward(loss_d)  # without retain_graph=True"""
EFFORT = Effort(Horizon.QUICK, "one backward for the sum of the losses", "none: gradients add up")
DETACH_EFFORT = Effort(Horizon.QUICK, "a detach for each optimizer's loss", "a loss trains less")
HIDDEN_EFFORT = Effort(Horizon.QUICK, "a detach", "gradients end at the step")


@rule(id="retained-graph", needs=("training", "steps"), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the finding about a graph that runs again, or that grows."""
    grown = run.variation.growing.get(Phase.BACKWARD)
    rises = grown is not None and grown.last - grown.first >= MIN_RISE * max(1, grown.first)
    if grown is not None and rises and run.memory.growth is not None and not _works_on_more(run):
        return _growing(grown)
    facts = trace_facts(run)
    if facts is None or not facts.analysis.operators or second_order(facts):
        return None
    return _repeated(run, facts)


def _works_on_more(run: RunResults) -> bool:
    """Return whether what a step works on grows: batches, or forward too and only since some step.

    A graph that is retained grows from the first step on, and only the backward pass goes through
    it.
    """
    if run.variation.batches is not None:
        return True
    slow_down = None if run.slow_down is None else run.slow_down.slow_down
    return slow_down is not None and slow_down.lasts and Phase.FORWARD.value in slow_down.phases


def _repeated(run: RunResults, facts: TraceFacts) -> Finding | None:
    passes, backward = graph_passes(facts), run.per_step(Phase.BACKWARD)
    if backward is None or passes.repeated_frac < MIN_REPEATED:
        return None
    # The time of the repeated nodes themselves is saved. Of the rest, which begins passes and adds
    # up gradients, at most the time of all passes but one is.
    rest_ns = max(0.0, backward.median_ns - sum(node.total_ns for node in graph_nodes(facts)))
    cost_ns, most_ns = (
        round(min(backward.mean_ns, passes.repeated_ns + frac * rest_ns))
        for frac in (passes.repeated_frac, 1 - 1 / passes.most_passes)
    )
    least_ns = min(cost_ns, round(passes.repeated_ns))
    several = len(settings_of(run.start).optimizers) > 1
    saving = Range(low=around(least_ns)[0], high=min(backward.mean_ns, around(most_ns)[1]))
    sampled = run.lines.of(Phase.BACKWARD) if run.lines else []
    lines = [Place.at(line, phase=line.phase) for line in sampled if RETAINED in line.source]
    return Finding(
        title=f"{duration(cost_ns)} of each step runs the same graph again",
        advice=DETACH if several else ADD_UP,
        evidence={
            "repeated_frac": passes.repeated_frac,
            "repeated_ns": cost_ns,
            "backward_ns": backward.mean_ns,
            "passes_count": round(passes.mean_passes, 2),
        },
        saving_ns=saving,
        cause_ns=Range(cost_ns, most_ns),
        confidence=0.9 if lines else 0.7,
        places=(*lines[:1], Place(phase=Phase.BACKWARD.value)),
        change=DETACHED if several else ADDED_UP,
        effort=DETACH_EFFORT if several else EFFORT,
    )


def _growing(grown: Growth) -> Finding:
    now_ns = grown.before_first + grown.last - grown.first
    cost_ns = grown.before_first + grown.mean_above_first
    saving = Range(low=min(cost_ns, now_ns), high=now_ns)
    return Finding(
        title=f"The backward pass grew from {duration(grown.first)} to {duration(grown.last)}",
        advice="Detach what one step hands to the next (hidden states, summed losses).",
        evidence={"backward_first_ns": grown.first, "backward_last_ns": grown.last},
        saving_ns=saving,
        cause_ns=saving,
        confidence=0.7,
        places=(Place(phase=Phase.BACKWARD.value),),
        change="self.hidden = hidden.detach()",
        effort=HIDDEN_EFFORT,
        explains=("memory-growth", "growing-step", "slowed-down"),
    )
