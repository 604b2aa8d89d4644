"""A line of the program makes ranks wait for one another in every step.

## Symptom
A barrier, a reduction or an exchange of objects that the program calls itself takes a share of each
step on every rank.

## Why
Each collective operation is a meeting: no rank goes on before the last has come, so what ranks
take longer by chance adds up once more. Exchanges of objects pickle them too, and send their sizes
first.

## Fix
Do it once in many steps, or reduce tensors on the device and read them at the end of an epoch. A
barrier within training is rarely needed.

```python
torch.distributed.barrier()  # before: in every step
if batch_idx % 100 == 0: torch.distributed.barrier()  # after
```

## How it is measured
`line_ns` is the share of stack samples of the training thread at the line, times the duration of
its phase. The samples are of lines at which a collective operation was waiting. `waited_ns` is how
long this rank waits per step for ranks that are late: without the line, it waits for them at the
next exchange. The saving is what is left, and at least nothing.

## Limits
It is a line of this rank. A collective in the backward pass, or that a library makes, is not named.
"""

import re

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import around
from lightning_gpuprof.findings.grade import WARNING_FRAC
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Range
from lightning_gpuprof.findings.rule import evidence_of, measured, rule
from lightning_gpuprof.records.lines import COLLECTIVE, LineCount
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent

_CALLS = re.compile(
    r"\b(barrier|monitored_barrier|(all_)?gather(_object|_into_tensor)?|broadcast(_object_list)?"
    r"|scatter(_object_list)?|(all_)?reduce|reduce_scatter(_tensor)?|all_to_all(_single)?)\("
)
OBJECTS = "_object"
EFFORT = Effort(Horizon.QUICK, "a condition at a line", "values are exchanged less often")


@rule(id="own-collective", needs=("training", "lines"), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the finding about the program's own collective that takes longest."""
    if run.start.world_size < 2 or run.lines is None:
        return None
    own = [
        line for line in run.lines.lines if line.kind == COLLECTIVE and _CALLS.search(line.source)
    ]
    times_ns = {line: _line_ns(run, line) for line in own}
    line = max(own, key=lambda line: times_ns[line], default=None)
    step_ns = measured(run.step_ns)
    if line is None or times_ns[line] < WARNING_FRAC * step_ns:
        return None
    line_ns = times_ns[line]
    waits = run.ranks.waits
    waited_ns = None if waits is None else waits.waited_ns.get(run.start.rank)
    own_ns = max(0, line_ns - (waited_ns or 0))
    pickles = (
        " Objects are pickled and sent in two operations: exchange a tensor instead."
        if OBJECTS in line.source
        else ""
    )
    return Finding(
        title=f"A collective at line {line.line} takes {duration(line_ns)} of each step "
        f"({percent(line_ns / step_ns)})",
        advice="Let ranks meet there once in many steps, or at the end of an epoch: all of them "
        f"wait there for the last.{pickles}",
        evidence=evidence_of(line_ns=line_ns, samples_count=line.count, waited_ns=waited_ns),
        saving_ns=Range(0, min(line_ns, around(own_ns)[1])),
        cause_ns=Range(0, line_ns),
        confidence=0.7,
        places=(Place.at(line, phase=line.phase),),
        explains=("exposed-communication",),
    )


def _line_ns(run: RunResults, line: LineCount) -> int:
    per_step = run.per_step(Phase(line.phase))
    whole = run.lines.by_phase.get(line.phase, 0) if run.lines else 0
    return round(per_step.mean_ns * line.count / whole) if per_step and whole else 0
