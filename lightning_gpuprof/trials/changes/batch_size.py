"""Trains with larger batches, with fewer to accumulate: the gain is by sample.

Batches differ, and with them the values that learning rate and schedule should have.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.trials.change import Change, Settings, Values

LARGER = (2, 4)


def _values(run: RunResults) -> Values:
    now = run.start.loader.batch_size if run.start.loader else None
    if not now:
        return "the size of its batches is none of a DataLoader's settings"
    return [factor * now for factor in LARGER]


def _write(value: int, run: RunResults) -> Settings:
    now = run.start.loader.batch_size if run.start.loader else None
    parts = run.start.trainer.get("accumulate_grad_batches") or 1
    fewer = {"Trainer": {"accumulate_grad_batches": max(1, parts * (now or 1) // value)}}
    return {"DataLoader": {"batch_size": value}, **(fewer if parts > 1 else {})}


CHANGE = Change(
    values=_values,
    write=_write,
    findings=("unused-vram", "vram-pressure", "host-bound"),
    alters="batches differ, and with them what learning rate and schedule were set for",
)
