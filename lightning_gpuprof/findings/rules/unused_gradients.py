"""Gradients are computed that no optimizer steps on.

## What it measures
Which parameters get a gradient from a backward pass that is cleared, or kept for ever, without any
optimizer's step on it, or is stepped on with a learning rate of 0 that no scheduler raises, in the
run's first batches; and `unused_frac`: what those gradients take of
the backward passes, by when each one was ready on the host's clock.

## Why it matters
A teacher that runs without `no_grad`, a generator whose output is not detached for the
discriminator's loss, or a body that the optimizer was not given costs a backward pass of its own,
keeps its activations until then, and a gradient as large as itself.

## What to do
Freeze what stays as it is (`requires_grad_(False)`), and detach what is handed from one model to
the other (`fake.detach()`). A frozen judge of what is trained (a perceptual loss) hands the
gradient on as before: under `torch.no_grad()` it would not. Where it should have been trained, give
it to the optimizer, or another rate: that is a mistake in the training, and no cost.

## Thresholds
`SURE_LOW`: time between gradients after which no used one comes is theirs alone, up to what goes
with a cost beside its own time (docs/adr/0031: a fifth, either way). `MAYBE_LOW`: a layer whose
gradients are unused, but that hands the gradient on to others, saves about one of its two products
in the backward pass (`HANDED_ON`, where what they are given has a gradient itself: such layers
cannot save more). `HIGH`: that fifth; without a graph the forward pass is a little cheaper too.
An update with a rate of 0 goes as well: these tensors' share of the optimizer's step, from
`UPDATE_LOW` of it, as a step has its own cost and fused ones go by size.
On a GPU the host's clock shows what was launched, not what it took: the low bound is 0. Without
times (a compiled model) the high bound is the parameters' share. Severity: the common scale
(`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.host_work import parameter_tensors
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range, Where
from lightning_gpuprof.findings.places import attribute
from lightning_gpuprof.records.notes import UnusedGradients, unused_gradients
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import percent

ID = "unused-gradients"
EFFORT = Effort(Horizon.QUICK, "one line", "none, where these parameters are not meant to train")
SURE_LOW, MAYBE_LOW, HIGH = 0.8, 0.4, 1.2
HANDED_ON = 0.5
UPDATE_LOW = 0.5
MOST_NAMES, MOST_FROZEN = 3, 8


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where gradients are thrown away."""
    backward, unused = run.per_step(Phase.BACKWARD), unused_gradients(run.notes)
    if run.step_ns is None or backward is None:
        return Abstained(ID, "no step's backward pass was measured")
    if unused is None:
        return None
    saving = _saving(unused, backward.mean_ns, on_gpu=run.on_gpu)
    update_ns = _update_ns(run, unused)
    least_ns = 0 if run.on_gpu else round(UPDATE_LOW * update_ns)
    saving = Range(low=saving.low + least_ns, high=saving.high + update_ns)
    evidence: dict[str, int | float] = {
        "unused_tensors_count": unused.tensors,
        "unused_parameters_count": unused.parameters,
        "backward_ns": backward.mean_ns,
        "step_ns": run.step_ns,
    }
    took = ""
    if unused.sure_frac is not None and unused.maybe_frac is not None:
        evidence["unused_frac"] = unused.sure_frac + _own_frac(unused, unused.maybe_frac)
        took = f", {percent(evidence['unused_frac'])} of the backward pass"
    names = ", ".join(map(attribute, unused.modules[:MOST_NAMES]))
    if len(unused.modules) > MOST_NAMES:
        names += f" and {len(unused.modules) - MOST_NAMES} more"
    fate = "no optimizer steps on them"
    if unused.rate_zero:
        fate = "the optimizer steps on them with a learning rate of 0"
        evidence["update_ns"] = update_ns
    advice, change = _cure(unused)
    return Finding(
        id=ID,
        severity=grade(saving, run.step_ns),
        title=f"Gradients of {unused.tensors} parameters in {names} are computed and "
        + ("cleared before any step" if unused.stepped else fate)
        + took,
        advice=advice,
        evidence=evidence,
        saving_ns=saving,
        confidence=0.9 if took and not run.on_gpu else 0.6,
        where=(
            Where(phase=Phase.BACKWARD.value),
            *(Where(name=name) for name in unused.modules[:MOST_NAMES]),
        ),
        change=change,
    )


def _cure(unused: UnusedGradients) -> tuple[str, str]:
    """Return the advice, and the change as code."""
    first, frozen = attribute(unused.modules[0]), _frozen(unused.modules)
    if unused.rate_zero and not unused.stepped:
        return (
            "Freeze what is not meant to change, and leave it out of the optimizer. If its "
            "learning rate rises later, freeze it until then.",
            f"{frozen}  # in place of a group with lr=0",
        )
    if not unused.stepped:
        return (
            "Freeze what is not trained: it still hands on the gradient of what is. If it is meant "
            "to be trained, the optimizer lacks its parameters.",
            frozen,
        )
    if (unused.sure_frac or 0) < (unused.maybe_frac or 0):
        return (
            "Switch these gradients off while the other model's loss goes back through these "
            "layers: that takes the gradient of their input, not those of their weights.",
            f"{frozen}  # in the other's pass, or self.toggle_optimizer(...)",
        )
    return (
        "Detach what one model hands to the other's loss, so that its gradients are computed in "
        "its own pass alone.",
        f"{first}(...).detach()  # where the other model's loss takes it",
    )


def _frozen(modules: tuple[str, ...]) -> str:
    """Return the code that freezes modules, the costliest of them where there are many."""
    names = [attribute(name) for name in modules[:MOST_FROZEN]]
    if len(modules) == 1:
        return f"{names[0]}.requires_grad_(False)"
    rest = f"  # and {len(modules) - len(names)} more" if len(modules) > len(names) else ""
    return f"for part in ({', '.join(names)}):{rest}\n    part.requires_grad_(False)"


def _own_frac(unused: UnusedGradients, maybe_frac: float) -> float:
    """Return what goes at most of the gradients on the way to used ones."""
    return maybe_frac * HANDED_ON if unused.through else maybe_frac


def _update_ns(run: RunResults, unused: UnusedGradients) -> int:
    """Return the share of the optimizer's step that goes to updates which change nothing."""
    step = run.per_step(Phase.OPTIMIZER_STEP)
    tensors = unused.all_stepped or parameter_tensors(run)
    if step is None or not tensors:
        return 0
    return round(step.mean_ns * min(1.0, unused.rate_zero / tensors))


def _saving(unused: UnusedGradients, backward_ns: int, *, on_gpu: bool) -> Range:
    sure, maybe = unused.sure_frac, unused.maybe_frac
    if sure is None or maybe is None:
        share = unused.parameters / max(1, unused.all_parameters)
        return Range(low=0, high=round(share * backward_ns))
    # Of a model and its judge, each in the other's pass, the change proposed spares the larger.
    least = max(SURE_LOW * sure, MAYBE_LOW * maybe)
    if not unused.stepped:
        least = SURE_LOW * sure + MAYBE_LOW * maybe
    low = 0 if on_gpu else round(least * backward_ns)
    return Range(low=low, high=round(HIGH * (sure + _own_frac(unused, maybe)) * backward_ns))
