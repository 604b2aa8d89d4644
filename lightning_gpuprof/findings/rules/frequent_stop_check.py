"""Before every batch, Lightning asks all ranks whether to stop, and waits for the answer.

## What it measures
`stop_check_ns`: the host's time in the broadcast by which rank 0 tells the others, before every
batch, whether it was told to stop (SIGTERM), on the rank that is in it least: what others are in it
longer is waiting for a rank that is late (`straggler-rank`).

## Why it matters
Every rank needs the answer before it goes on. It costs a message to all of them, and on a GPU the
host reads it off the device: it waits until all queued work is done, and has nothing queued after.
Lightning 2.4 does not ask; what it costs was reported to its authors
(https://github.com/Lightning-AI/pytorch-lightning/issues/21487).

## What to do
Ask every 50th batch. All ranks must ask at the same batches, as they do by the number of the batch;
a SIGTERM is then acted on up to 50 batches later. The method belongs to Lightning alone: where the
Trainer has an argument for it (`broadcast_sigterm_every_n_steps`), set that.

## Thresholds
None of its own: the common scale (`findings/grade.py`). On a CPU the low bound is the time of the
rank that came last in each step, the high one also its waits for ranks late by chance, of which
there is one less per step. Two processes on two cores with steps of 3.9 ms saved 0.57, 0.75 and
0.94 ms; two runs had predicted 0.30 to 1.48 and 0.25 to 0.82 ms. On a GPU the device's own time in
it is the low bound, the host's the high one; that was never measured.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import around
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range, Where
from lightning_gpuprof.records.phases import STOP_CHECK, Phase
from lightning_gpuprof.units import duration, percent

ID = "frequent-stop-check"
EFFORT = Effort(Horizon.QUICK, "a few lines before fit", "SIGTERM is acted on some batches later")
CHANGE = """\
loop = trainer.fit_loop.epoch_loop
ask = loop._broadcast_sigterm_tensor
def ask_seldom():
    if loop.batch_idx % 50 == 0:
        ask()
loop._broadcast_sigterm_tensor = ask_seldom"""


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where the question whether to stop takes time of each step."""
    if run.start.world_size < 2:
        return None
    check = run.stop_check
    if run.step_ns is None or check is None:
        return Abstained(ID, "the Trainer did not ask, or records of some ranks are not here")
    low, _ = around(check.least_ns)
    _, high = around(check.usual_ns)
    if run.on_gpu:
        low = min(_on_device(run), check.least_ns)
    saving = Range(low=low, high=min(high, run.step_ns))
    return Finding(
        id=ID,
        severity=grade(saving, run.step_ns),
        title=f"Asking all ranks whether to stop takes {duration(check.usual_ns)} of each step "
        f"({percent(check.usual_ns / run.step_ns)})",
        advice="Lightning asks before every batch; every 50th is enough (before trainer.fit).",
        evidence={
            "stop_check_ns": check.usual_ns,
            "stop_check_frac": check.usual_ns / run.step_ns,
            "step_ns": run.step_ns,
        },
        saving_ns=saving,
        confidence=0.8,
        where=(Where(phase=Phase.OTHER.value, name=STOP_CHECK),),
        change=CHANGE,
    )


def _on_device(run: RunResults) -> int:
    parts = run.device_time.parts if run.device_time else ()
    return sum(one.mean_ns for one in parts if (one.phase, one.name) == (Phase.OTHER, STOP_CHECK))
