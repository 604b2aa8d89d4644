"""Logs the loss alone, later, by `DeferredLoss`: values that `self.log` logged are missing."""

from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.trials.change import Change

CHANGE = Change(
    values=lambda run: [True],
    write=lambda value, run: {
        "callbacks": ["DeferredLoss"],
        "lines": ["model.log = model.log_dict = lambda *args, **options: None"],
    },
    phases=(Phase.LOGGING, Phase.CALLBACKS),
    findings=("slow-logging", "host-sync"),
    alters="what self.log logged is missing; loggers have the loss of every step",
)
