"""A weight is computed from the same parameters several times in one step.

## What it measures
`again_ns`: host time per step of torch functions in the forward pass that are given weights alone,
the same ones and unchanged since they were given to the same function on the same line before;
without the first time.

## Why it matters
A layer with a parametrization (`weight_norm`, `spectral_norm`, a mask on its weights) computes its
weight whenever it is read. In a loop over time steps, or with two inputs one after the other, it
does so again and again, and each has a way back through it.

## What to do
Compute it once per step and hand it on; for parametrizations `with parametrize.cached():` around
the forward pass. Spectral norm then makes one step of its power iteration per pass, not one per
call.

## Thresholds
`MIN_FRAC`: a scale or two is every model's. The backward pass takes up to `BACK_HIGH` of the
forward pass's time on top; a fifth less or more goes with it (docs/adr/0031). On a GPU the host's
clock gives no low bound. Severity: the common scale (`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import around
from lightning_gpuprof.findings.grade import by_host, grade
from lightning_gpuprof.findings.looked import looked
from lightning_gpuprof.findings.model import Effort, Finding, Horizon
from lightning_gpuprof.findings.places import in_forward
from lightning_gpuprof.records.function_calls import FunctionNotes, RebuiltWeights
from lightning_gpuprof.units import duration, percent

ID = "rebuilt-weights"
EFFORT = Effort(
    Horizon.QUICK, "computed once, and handed on", "last digits differ; spectral norm iterates less"
)
MIN_FRAC = 0.01
BACK_HIGH = 2.0
CACHED = "with torch.nn.utils.parametrize.cached():  # around the forward pass"


@looked(ID)
def evaluate(run: RunResults, step_ns: int, seen: FunctionNotes) -> Finding | None:
    """Return a finding where weights are computed more than once."""
    one = told(seen, step_ns)
    return None if one is None else _finding(run, step_ns, one)


def told(seen: FunctionNotes, step_ns: int) -> RebuiltWeights | None:
    """Return the weights that are worth telling of; None where there are none."""
    one = seen.rebuilt
    return one if one is not None and one.again_ns >= MIN_FRAC * step_ns else None


def _finding(run: RunResults, step_ns: int, one: RebuiltWeights) -> Finding:
    low, _ = around(one.again_ns)
    _, high = around(round((1 + BACK_HIGH) * one.again_ns))
    saving = by_host(low, high, step_ns, unsure=run.on_gpu)
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"{one.places[0].function} computes with the same weights {one.times} times a step: "
        f"doing it once saves {duration(one.again_ns)} of the forward pass "
        f"({percent(one.again_ns / step_ns)} of the step), and as much of the backward pass",
        advice="Compute it once per step and use the result everywhere. For a parametrization, "
        "torch.nn.utils.parametrize.cached() does that (spectral norm then iterates once a step).",
        evidence={"again_ns": one.again_ns, "times_count": one.times, "step_ns": step_ns},
        saving_ns=saving,
        confidence=0.5 if run.on_gpu else 0.8,
        where=in_forward(one.places),
        change=CACHED,
    )
