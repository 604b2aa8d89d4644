"""Captures of a run: what is asked for, and what comes amid them."""

import os

from faults.program import Planted
from faults.rig import Rows, raises, row

from lightning_gpuprof.callbacks import capture_control
from lightning_gpuprof.callbacks.capture_control import CaptureControl
from lightning_gpuprof.records.capture_files import CaptureRequest, request_path, write_file
from lightning_gpuprof.records.facts import SlowDown, SlowDownShape
from lightning_gpuprof.runtime.context import RunContext

ASKED = "training_step 5"
"""The request is seen at this step's end; four steps later its window begins."""


class Long(Rows):
    def __len__(self):
        return 24


def ask(model):
    """Write a request, as the command does."""
    context = RunContext.running(model.trainer)
    if context is not None:
        began = context.started_unix_ns
        request = CaptureRequest(id="0" * 8, started_unix_ns=began, stacks=True, lines_s=0.05)
        write_file(request_path(context.run_dir), request)


def write(text):
    """Return a function that writes something else in the place of a request."""

    def act(model):
        context = RunContext.running(model.trainer)
        if context is not None:
            with open(request_path(context.run_dir), "wb") as file:
                file.write(text)

    return act


def slow_down(model):
    for callback in model.trainer.callbacks:
        for part in getattr(callback, "parts", ()):
            if isinstance(part, CaptureControl):
                part.on_slow_down(
                    SlowDown(
                        shape=SlowDownShape.STEP,
                        since_step=3,
                        noticed_step=5,
                        before_ns=1,
                        during_ns=2,
                    )
                )


def a_folder(model):
    context = RunContext.running(model.trainer)
    if context is not None:
        os.makedirs(request_path(context.run_dir))


def often(run):
    """Look for requests at every batch."""
    capture_control.STAT_NS = capture_control.LOOK_NS = 1


LONG = {"data": Long()}
# fmt: off
row("a request for a capture", often, plan={ASKED: ask}, **LONG, fast=True)
row("a request for a capture with workers", often, plan={ASKED: ask}, **LONG, loader={"num_workers": 2})
row("a slow-down that is captured", often, plan={"on_train_batch_end 5": slow_down}, **LONG, fast=True)
row("a request that is no request", often, plan={ASKED: write(b"[")}, **LONG, fast=True)
row("a folder in the place of a request", often, plan={ASKED: a_folder}, **LONG)
row("an error in the window of a capture", often, plan={ASKED: ask, "training_step 11": raises(Planted("here"))}, **LONG, fast=True)
row("Ctrl-C in the window of a capture", often, plan={ASKED: ask, "training_step 11": raises(KeyboardInterrupt())}, **LONG)
row("an error while a capture samples lines", often, plan={ASKED: ask, "training_step 17": raises(Planted("here"))}, **LONG)
row("a request as training ends", often, plan={"training_step 22": ask}, **LONG)
# fmt: on
