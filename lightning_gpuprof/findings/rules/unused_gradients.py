"""Gradients are computed that no optimizer uses.

## Symptom
Parameters get gradients but are in no optimizer.

## Why
A teacher model without `no_grad`, or a backbone that was not given to the optimizer, costs a
backward pass and keeps its activations until then.

## Fix
Freeze what is not trained. Gradients still pass through frozen layers.

```python
self.teacher = load_teacher()  # before
self.teacher = load_teacher().requires_grad_(False)  # after
```

## How it is measured
The rule looks for parameters that have a gradient after the first batch and are in no optimizer.
`lightning-gpuprof inspect --into RUN` adds those whose learning rate is 0. At most their share of
the backward pass is saved.

## Limits
The finding is always `info`: freezing a module that passes gradients on saves little.
"""

import re

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Range, Severity
from lightning_gpuprof.findings.rule import rule
from lightning_gpuprof.records.phases import Phase

MOST_NAMES, MOST_FROZEN = 3, 8
EFFORT = Effort(Horizon.QUICK, "one line", "none, if these parameters are not meant to train")


@rule(id="unused-gradients", needs=("training", "steps"), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the finding about parameters that get gradients but are in no optimizer."""
    backward, unused = run.per_step(Phase.BACKWARD), run.facts.unused_gradients
    if backward is None or unused is None:
        return None
    share = unused.parameters / max(1, unused.all_parameters)
    saving = Range(low=0, high=round(share * backward.mean_ns))
    names = [_attribute(name) for name in unused.modules]
    return Finding(
        severity=Severity.INFO,
        title=f"Gradients of {names[0]} are computed, but no optimizer uses them",
        advice="Freeze what is not trained; gradients still pass through it. If it should train, "
        "give its parameters to the optimizer.",
        evidence={
            "unused_tensors_count": unused.tensors,
            "unused_parameters_count": unused.parameters,
            "backward_ns": backward.mean_ns,
        },
        saving_ns=saving,
        cause_ns=saving,
        confidence=0.6,
        places=(
            Place(phase=Phase.BACKWARD.value),
            *(Place(name=name) for name in unused.modules[:MOST_NAMES]),
        ),
        change=_frozen(names),
    )


def _frozen(names: list[str]) -> str:
    """Return the code that freezes modules."""
    if len(names) == 1:
        return f"{names[0]}.requires_grad_(False)"
    more = f"  # and {len(names) - MOST_FROZEN} more" if len(names) > MOST_FROZEN else ""
    shown = ", ".join(names[:MOST_FROZEN])
    return f"for part in ({shown}):{more}\n    part.requires_grad_(False)"


def _attribute(name: str) -> str:
    """Return a module's name as `training_step` would write it.

    >>> _attribute("net.layers.0.1")
    'self.net.layers[0][1]'
    """
    return "self." + re.sub(r"\.(\d+)(?![^.])", r"[\1]", name)
