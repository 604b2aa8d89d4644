"""Trains with larger batches, of which fewer are accumulated. The gain is per sample.

Batches differ, and with them the right values of learning rate and schedule.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.settings import settings_of
from lightning_gpuprof.records.trials import ChangedSettings
from lightning_gpuprof.trials.change import Change, Values

FACTORS = (2, 4)


def _values(run: RunResults) -> Values:
    batch_size = run.start.loader.batch_size if run.start.loader else None
    if not batch_size:
        return "its batch size is not a setting of a DataLoader"
    return [factor * batch_size for factor in FACTORS]


def _write(batch_size: int, run: RunResults) -> ChangedSettings:
    before = (run.start.loader.batch_size if run.start.loader else None) or 1
    accumulated = settings_of(run.start).accumulate_grad_batches
    trainer = {}
    if accumulated > 1:
        trainer["accumulate_grad_batches"] = max(1, accumulated * before // batch_size)
    return ChangedSettings(data_loader={"batch_size": batch_size}, trainer=trainer)


CHANGE = Change(
    values=_values,
    write=_write,
    findings=("unused-vram", "vram-pressure", "host-bound"),
    alters="batches differ, and with them the right learning rate and schedule",
)
