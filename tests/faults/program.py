"""Faults of the program itself: its hooks, its step, its data."""

import os
import signal

import torch
from faults.rig import Model, put, raises, row
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Planted(Exception):
    pass


class Unspeakable(Exception):
    """Its text cannot be had."""

    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


class OwnBase(BaseException):
    pass


FAST = (
    "setup",
    "on_train_start",
    "training_step 1",
    "training_step 6",
    "validation_step",
    "teardown",
)
# fmt: off
MOMENTS = (
    *FAST, "prepare_data", "configure_model", "configure_optimizers", "on_fit_start",
    "on_train_epoch_start", "on_train_batch_start 0", "training_step 0", "training_step 2",
    "on_before_backward 3", "on_after_backward 5", "on_before_optimizer_step 4",
    "on_train_batch_end 3", "on_validation_start", "on_train_epoch_end", "on_train_end",
    "on_fit_end", "on_save_checkpoint",
)
for moment in MOMENTS:
    row(f"an error in {moment}", plan={moment: raises(Planted("here"))}, fast=moment in FAST)
for moment in ("setup", "on_train_start", "training_step 0", "training_step 3",
               "on_after_backward 5", "validation_step", "on_train_end", "teardown"):
    row(f"Ctrl-C in {moment}", plan={moment: raises(KeyboardInterrupt())}, fast="3" in moment)
for moment in ("setup", "training_step 3", "on_train_end"):
    row(f"an exit in {moment}", plan={moment: raises(SystemExit(3))}, fast="3" in moment)
# fmt: on

# What a step may raise, beside its own errors.
for error in (
    *(OwnBase("here"), MemoryError(), StopIteration(), GeneratorExit(), AssertionError("loss")),
    *(torch.OutOfMemoryError("CUDA out of memory"), BrokenPipeError(32, "Broken pipe")),
    *(SystemExit("no more"), SyntaxError("made"), NotImplementedError()),
):
    row(f"a step that raises {type(error).__name__}", plan={"training_step 5": raises(error)})


class Stream(IterableDataset):
    """Ends after five batches."""

    at = None
    __iter__ = lambda self: (torch.randn(8) for _ in range(5))  # noqa: E731 - a row of a class


class Batch:
    """A program's own, which refuses to be asked."""

    def __init__(self, rows):
        self.rows = torch.stack(rows)

    def to(self, *args, **kwargs):
        return self

    def __getattr__(self, name):
        raise Planted(name)


class OfBatches(Model):
    def training_step(self, batch, batch_idx):
        return super().training_step(batch.rows, batch_idx)


def output(model):
    return model.layers(torch.randn(2, 8))


def kill(number):
    return lambda model: os.kill(os.getpid(), number)


def at_row(act, *, worker=False):
    def at(index):
        if index == 5 and (get_worker_info() is not None) == worker:
            act()

    return lambda run: setattr(run.data, "at", at)


ROW, WORKER, HERE = raises(Planted("row")), {"num_workers": 1}, raises(Planted("here"))
STAYING = {"num_workers": 2, "persistent_workers": True}
# fmt: off
row("an error without a text", plan={"training_step 5": raises(Unspeakable())}, fast=True)
row("an error of a book's length", plan={"training_step 5": raises(Planted("word " * 100_000))})
row("an error that is not UTF-8", plan={"training_step 5": raises(Planted("\udcff"))})
row("an endless recursion", plan={"training_step 5": lambda m: m.do("training_step")})
row("an error in the backward pass", plan={"training_step 3": lambda m: (loss := output(m).sum(), loss.register_hook(HERE))[0]})
row("a loss that is not a number", plan={"training_step 3": lambda m: output(m).sum() * float("nan")})
row("a loss of a shape", plan={"training_step 3": output})
row("training that is told to stop", plan={"training_step 3": lambda m: setattr(m.trainer, "should_stop", True)})
row("SIGINT amid a step", plan={"training_step 3": kill(signal.SIGINT)}, fast=True)
row("SIGTERM amid a step", plan={"training_step 5": kill(signal.SIGTERM)}, fast=True)
row("SIGKILL amid a step", plan={"training_step 5": kill(signal.SIGKILL)}, fast=True)
row("an abort amid the window", plan={"training_step 3": lambda model: os.abort()})
row("an exit past all handlers", plan={"training_step 5": lambda model: os._exit(5)})
row("a dataset that fails", at_row(ROW), fast=True)
row("a dataset at which Ctrl-C comes", at_row(raises(KeyboardInterrupt())))
row("a worker that fails", at_row(ROW, worker=True), loader=WORKER)
row("a worker that dies", at_row(lambda: os._exit(9), worker=True), loader=WORKER, loose=True, off=None, says=".")
row("a worker that fails as it begins", loader=WORKER | {"worker_init_fn": raises(Planted("begin"))}, loose=True)
row("an error while workers run", plan={"training_step 3": HERE}, loader=STAYING)
row("Ctrl-C while workers run", plan={"training_step 3": raises(KeyboardInterrupt())}, loader=STAYING)
row("a batch that cannot be collated", loader={"collate_fn": raises(Planted("collate"))})
row("a batch that refuses to be asked", loader={"collate_fn": Batch}, model=OfBatches(), options={"limit_val_batches": 0})
row("a loader without a length", data=Stream(), fast=True)
row("a loader without batches", options={"limit_train_batches": 0})
row("a loader that fails", put(DataLoader, "__iter__", raises(Planted("iterator"))))
# fmt: on
