"""Logs only the loss, some steps later, by `DeferredLoss`. What `self.log` logged is missing."""

from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.trials import ChangedSettings
from lightning_gpuprof.trials.change import Change

CHANGE = Change(
    values=lambda run: [True],
    write=lambda value, run: ChangedSettings(
        callbacks=("DeferredLoss",),
        lines=("model.log = model.log_dict = lambda *args, **options: None",),
    ),
    phases=(Phase.LOGGING, Phase.CALLBACKS),
    findings=("slow-logging", "host-sync"),
    alters="what self.log logged is missing; loggers receive the loss of every step",
)
