"""Faults of what is beside the callback: other callbacks, loggers, profilers, several fits."""

import torch
from faults.program import Planted, kill
from faults.rig import raises, row
from lightning.pytorch import Callback
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.profilers import PyTorchProfiler, SimpleProfiler

from lightning_gpuprof import GpuProfCallback


class Other(Callback):
    """Does what it is given in a hook."""

    def __init__(self, **acts):
        self.acts = acts


for _name in ("setup", "teardown", "on_exception", "on_train_start", "on_train_end", "on_fit_end"):
    setattr(Other, _name, lambda self, *a, _hook=_name, **k: self.acts.get(_hook, len)(()))


def remove(model):
    """Take our callback out of the Trainer's."""
    found = model.trainer.callbacks
    found[:] = [one for one in found if not isinstance(one, GpuProfCallback)]


def fit_twice(*, back=False):
    """Return a function that fits once more, without what was planted; `back`: our callback too."""

    def fit(run):
        kept = list(run.make().callbacks)
        try:
            run.fit()
        except Planted:
            pass
        run.model.plan.clear()
        for one in run.callbacks:
            one.acts.clear()
        if back:
            run.trainer.callbacks[:] = kept
        run.trainer.fit_loop.max_epochs = 2
        run.fit()

    return fit


def validate_between(run):
    run.fit()
    run.trainer.validate(run.model, torch.utils.data.DataLoader(run.data), verbose=False)
    run.trainer.fit_loop.max_epochs = 2
    run.fit()


class Broken(CSVLogger):
    """Fails in the methods that it is told."""

    def __init__(self, folder, *fails):
        super().__init__(folder)
        for name in fails:
            setattr(self, name, raises(Planted(name)))


class Strict(CSVLogger):
    """Takes the program's own values alone."""

    def log_metrics(self, metrics, step=None):
        if "loss" in metrics:
            raise Planted("loss")
        super().log_metrics(metrics, step)


def logged_by(kind, *arguments):
    return lambda run: run.options.update(logger=kind(run.folder, *arguments))


def checkpoint_below_a_file(run):
    path = f"{run.folder}/file"
    with open(path, "w"):
        run.callbacks = [ModelCheckpoint(f"{path}/below")]


def theirs(model):
    with torch.profiler.profile():
        model.layers(torch.ones(8))


def theirs_around(run):
    with torch.profiler.profile():
        run.fit()


def log_over_ours(model):
    inner = model.log
    model.log = lambda *args, **kwargs: inner(*args, **kwargs)


FIRST, SECOND = raises(Planted("first")), raises(Planted("second"))
FAILS = {"training_step 5": FIRST}
AT_ERROR = {"callbacks": [Other(on_exception=SECOND)]}
BEFORE = AT_ERROR | {"last": True}
# fmt: off
row("a callback before ours fails at an error", plan=FAILS, **BEFORE, fast=True)
row("a callback before ours fails at an error in the window", plan={"training_step 3": FIRST}, **BEFORE, fast=True)
row("a callback before ours fails at an error in setup", plan={"setup": FIRST}, **BEFORE)
row("a callback before ours fails at an error of validation", plan={"validation_step": FIRST}, **BEFORE)
row("a callback before ours fails at Ctrl-C", plan={"training_step 5": raises(KeyboardInterrupt())}, **BEFORE)
row("a callback before ours is interrupted at Ctrl-C", plan={"training_step 5": raises(KeyboardInterrupt())}, last=True, callbacks=[Other(on_exception=kill(2))])
row("a callback before ours exits at an error", plan=FAILS, last=True, callbacks=[Other(on_exception=raises(SystemExit(4)))])
row("a callback after ours fails at an error", plan=FAILS, **AT_ERROR)
for name, last in (("before", True), ("after", False)):
    for hook in ("setup", "teardown", "on_train_start", "on_train_end", "on_fit_end"):
        row(f"a callback {name} ours fails in {hook}", last=last, callbacks=[Other(**{hook: SECOND})])
row("ours is removed amid the run", plan={"training_step 5": remove}, fast=True)
row("ours is removed in the window", plan={"training_step 2": remove})
row("ours is removed as training begins", plan={"on_train_start": remove})
row("ours is removed before training", plan={"on_fit_start": remove}, loader={"num_workers": 1})
row("ours is removed and then an error comes", plan={"training_step 4": remove} | FAILS, fast=True)
row("ours is removed as an error comes", plan={"training_step 4": lambda m: (remove(m), FIRST())})
row("all are removed and then an error comes", plan={"training_step 4": lambda m: m.trainer.callbacks.clear()} | FAILS, fast=True)
row("a second fit after an error", fit_twice(), plan=FAILS, fast=True)
row("a second fit after two errors at once", fit_twice(), plan=FAILS, **BEFORE, fast=True)
row("a second fit after ours was removed", fit_twice(back=True), plan={"training_step 5": remove})
row("a validation between two fits", validate_between)
row("a logger that takes no values", logged_by(Broken, "log_metrics"), says="Logging to Broken failed and is off", off=None)
row("a logger that takes only the program's values", logged_by(Strict), says="Logging to Strict failed", fast=True)
row("a logger that cannot save", logged_by(Broken, "save"))
row("a logger that cannot end", logged_by(Broken, "finalize"))
row("a logger that cannot end after an error", logged_by(Broken, "finalize"), plan=FAILS)
row("a checkpoint that cannot be written", checkpoint_below_a_file)
row("early stopping on what is not logged", callbacks=[EarlyStopping("nowhere")])
row("a profiler of the program's own", theirs_around, says="Only one profiler can record", fast=True)
row("a profiler that begins in our window", plan={"training_step 2": theirs}, says="began during a cycle")
row("Lightning's own torch profiler", lambda run: run.options.update(profiler=PyTorchProfiler(f"{run.folder}/plugins")), says="Lightning's own")
row("another profiler in the place of ours", plan={"training_step 5": lambda m: setattr(m.trainer, "profiler", SimpleProfiler())})
row("a log method put over ours", plan={"on_train_start": log_over_ours, "on_train_end": lambda m: vars(m).pop("log")}, fast=True)
row("gradients that accumulate when an error comes", plan=FAILS, options={"accumulate_grad_batches": 3})
row("a run of one batch that fails", plan={"training_step 0": FIRST}, options={"fast_dev_run": True})
# fmt: on
