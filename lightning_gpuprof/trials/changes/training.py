"""What the training loop does besides: batch size, logging, validation."""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.trials.change import Change, Settings, Values

LARGER = (2, 4)
USUAL_STEPS = 50
"""Lightning's interval of logging."""
_LOGGING = (Phase.LOGGING, Phase.CALLBACKS)


def _sizes(run: RunResults) -> Values:
    now = run.start.loader.batch_size if run.start.loader else None
    if not now:
        return "the size of its batches is none of a DataLoader's settings"
    return [factor * now for factor in LARGER]


def _write_size(value: int, run: RunResults) -> Settings:
    now = run.start.loader.batch_size if run.start.loader else None
    parts = run.start.trainer.get("accumulate_grad_batches") or 1
    fewer = {"Trainer": {"accumulate_grad_batches": max(1, parts * (now or 1) // value)}}
    return {"DataLoader": {"batch_size": value}, **(fewer if parts > 1 else {})}


def _log_interval(run: RunResults) -> Values:
    now = run.start.trainer.get("log_every_n_steps") or USUAL_STEPS
    loggers = run.start.trainer.get("loggers")
    return [max(USUAL_STEPS, 4 * now)] if loggers else "there is no logger"


BATCH_SIZE = Change(
    name="batch_size",
    values=_sizes,
    write=_write_size,
    findings=("unused-vram", "vram-pressure", "host-bound"),
    alters="batches differ, and with them what learning rate and schedule were set for",
)
LOG_EVERY_N_STEPS = Change(
    name="log_every_n_steps",
    values=_log_interval,
    place="Trainer",
    phases=_LOGGING,
    findings=("slow-logging",),
)
DEFERRED_LOGGING = Change(
    name="deferred_logging",
    values=lambda run: [True],
    write=lambda value, run: {
        "callbacks": ["DeferredLoss"],
        "lines": ["model.log = model.log_dict = lambda *args, **options: None"],
    },
    phases=_LOGGING,
    findings=("slow-logging", "host-sync"),
    alters="what self.log logged is missing; loggers have the loss of every step",
)
VAL_CHECK_INTERVAL = Change(
    name="val_check_interval",
    values=lambda run: "validation takes little of the time",
    findings=("frequent-validation",),
    alters="validations, and what follows them (checkpoints, early stops), come less often",
    computed=True,
)
