"""Compiling for the first time takes a good part of a short run.

## What it measures
`compiling_whole_ns`: what torch.compile took in the first steps, as dynamo times it itself, and
`compiled_frac`: its share of the time from the beginning of `fit` to its end.

## Why it matters
It comes once for each start of the program, however long that trains: to a day it adds nothing, of
a run that looks whether all works it may be most.

## What to do
Compile the block that repeats, not the whole model: equal blocks share what the first compiled
(regional compilation). Keep the cache: Inductor looks what it compiled before up on disk, by
default in a temporary folder, which a new container or node lacks. `mode="max-autotune"` tries many
kernels: leave it for runs that train for long. Short runs need not compile at all.

## Thresholds
`MIN_FRAC`: a fifth of the run, as `CRITICAL_FRAC` in `findings/grade.py`; above half of it it warns
where the run has ended by itself, as of one that was stopped nobody knows how long it was to be.
`MIN_NS`: ten seconds, for which people keep their mind on what they wait for (Nielsen, Usability
Engineering, 1993). Where more than two of the first steps compiled all but the first are told by
`recompilation`. How much of it a cache or smaller regions leave is not known: from nothing to all
is saved, spread over the steps of this run; a longer one has less per step.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.grade import CRITICAL_FRAC
from lightning_gpuprof.findings.model import (
    Abstained,
    Effort,
    Finding,
    Horizon,
    Range,
    Severity,
    When,
)
from lightning_gpuprof.findings.rules.recompilation import MIN_EARLY
from lightning_gpuprof.units import duration, percent

ID = "compile-startup"
EFFORT = Effort(
    Horizon.QUICK,
    "one line, or a variable of the environment",
    "smaller regions are fused less; uncompiled steps take longer",
)
MIN_FRAC = CRITICAL_FRAC
MOST_FRAC = 0.5
MIN_NS = 10_000_000_000
ADVICE = (
    "It comes once for each start. Compile the block that repeats, not the whole model, keep "
    "Inductor's cache on a disk that stays, use the default mode, not max-autotune, while you try "
    "things, and do not compile runs as short as this one."
)
CHANGE = """for block in self.blocks: block.compile()  # in place of torch.compile(model)
export TORCHINDUCTOR_CACHE_DIR=/a/disk/that/stays  # or, for a short run: TORCH_COMPILE_DISABLE=1"""


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where a good part of the run went into the first compilation."""
    if run.step_ns is None or run.steps is None or run.compiling is None:
        return Abstained(ID, "no step after the warm-up was recorded")
    early_ns = run.compiling.early_ns
    taken_ns = sum(early_ns if len(early_ns) < MIN_EARLY else early_ns[:1])
    whole_ns = run.wall.wall_ns
    if not run.wall.closed or taken_ns < max(MIN_NS, MIN_FRAC * whole_ns):
        return None
    frac = taken_ns / whole_ns
    most = run.status == "finished" and frac > MOST_FRAC
    return Finding(
        id=ID,
        severity=Severity.WARNING if most else Severity.INFO,
        title=f"torch.compile took {duration(taken_ns)} of the run's {duration(whole_ns)} "
        f"({percent(frac)}), once, in its first steps",
        advice=ADVICE,
        evidence={
            "compiling_whole_ns": taken_ns,
            "run_ns": whole_ns,
            "compiled_frac": frac,
            "step_ns": run.step_ns,
        },
        saving_ns=Range(low=0, high=taken_ns // run.steps.ran),
        confidence=0.6,
        when=When.BETWEEN,
        change=CHANGE,
    )
