"""Gradients are computed that no optimizer steps on.

## Symptom
Parameters get a gradient that is cleared, or kept for ever, without any optimizer's step on it.

## Why
A teacher without `no_grad`, a generator whose output is not detached, or a body that the optimizer
was not given costs a backward pass of its own, and keeps its activations until then.

## Fix
Freeze what stays as it is, and detach what is handed from one model to the other.

```python
loss_d = criterion(self.discriminator(fake), zeros)            # before
loss_d = criterion(self.discriminator(fake.detach()), zeros)   # after
self.teacher.requires_grad_(False)
```

## How it is measured
By `lightning-gpuprof inspect`: which gradients are stepped on, and `unused_frac`, their share of
the backward pass by when each was ready.

## Limits
On a GPU the host's clock shows launches, so nothing is sure. A frozen judge still hands gradients
on.
"""

import re

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Range, Where
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import percent

SURE_LOW, MAYBE_LOW, HIGH = 0.8, 0.4, 1.2
"""Shares saved of gradients nobody else needs, of those on the way to used ones, and the most."""
HANDED_ON = 0.5
MOST_NAMES, MOST_FROZEN = 3, 8
EFFORT = Effort(Horizon.QUICK, "one line", "none, where these parameters are not meant to train")


@rule(id="unused-gradients", needs=("steps",), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return a finding where gradients are thrown away."""
    backward, unused, step_ns = (
        run.per_step(Phase.BACKWARD),
        run.unused_gradients,
        measured(run.step_ns),
    )
    if backward is None or unused is None:
        return None
    sure, maybe = unused.sure_frac, unused.maybe_frac
    evidence: dict[str, int | float] = {
        "unused_tensors_count": unused.tensors,
        "unused_parameters_count": unused.parameters,
        "backward_ns": backward.mean_ns,
        "step_ns": step_ns,
    }
    share, took = unused.parameters / max(1, unused.all_parameters), ""
    saving = Range(low=0, high=round(share * backward.mean_ns))
    if sure is not None and maybe is not None:
        own = maybe * HANDED_ON if unused.through else maybe
        least = SURE_LOW * sure + MAYBE_LOW * maybe
        if unused.stepped:  # of a model and its judge, the change spares the larger part
            least = max(SURE_LOW * sure, MAYBE_LOW * maybe)
        low = 0 if run.on_gpu else round(least * backward.mean_ns)
        saving = Range(low=low, high=round(HIGH * (sure + own) * backward.mean_ns))
        evidence["unused_frac"] = sure + own
        took = f" ({percent(sure + own)} of backward)"
    names = [_attribute(name) for name in unused.modules]
    advice, change = _advice(names, stepped=unused.stepped, shared=(sure or 0) < (maybe or 0))
    return Finding(
        severity=grade(saving, step_ns),
        title=f"Gradients of {names[0]} are computed and "
        + ("cleared before a step" if unused.stepped else "never stepped on")
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


def _advice(names: list[str], *, stepped: bool, shared: bool) -> tuple[str, str]:
    if not stepped:
        return (
            "Freeze what is not trained: it still hands on the gradient of what is. If it is meant "
            "to be trained, the optimizer lacks its parameters.",
            _frozen(names),
        )
    if shared:
        return (
            "Switch these gradients off while the other model's loss goes back through these "
            "layers: that takes the gradient of their input, not those of their weights.",
            f"{_frozen(names)}  # in the other's pass, or self.toggle_optimizer(...)",
        )
    return (
        "Detach what one model hands to the other's loss, so that its gradients are computed in "
        "its own pass alone.",
        f"{names[0]}(...).detach()  # where the other model's loss takes it",
    )


def _frozen(names: list[str]) -> str:
    """Return the code that freezes modules, the costliest of them where there are many."""
    if len(names) == 1:
        return f"{names[0]}.requires_grad_(False)"
    rest = f"  # and {len(names) - MOST_FROZEN} more" if len(names) > MOST_FROZEN else ""
    shown = ", ".join(names[:MOST_FROZEN])
    return f"for part in ({shown}):{rest}\n    part.requires_grad_(False)"


def _attribute(name: str) -> str:
    """Return a module's name as `training_step` would write it.

    >>> _attribute("net.layers.0.1")
    'self.net.layers[0][1]'
    """
    return "self." + re.sub(r"\.(\d+)(?![^.])", r"[\1]", name)
