"""Shared by the free scripts: the callbacks of a run, a clock, the last line printed."""

import json
import os
import resource
import statistics
import time

import lightning.pytorch as pl
import torch

FIX, PROF = os.environ.get("FIX") == "1", os.environ.get("PROF") == "1"
OUT = os.environ.get("OUT", "out")


class Clock(pl.Callback):
    def __init__(self):
        self.ends = []

    def _end(self, *_):
        self.ends.append(time.perf_counter())

    on_train_batch_end = on_test_batch_end = on_predict_batch_end = _end


def trainer(callbacks=(), **options):
    torch.set_num_threads(1)
    pl.seed_everything(3, verbose=False)
    clock = Clock()
    added = clock
    if PROF:
        from lightning_gpuprof import GpuProfCallback

        added = GpuProfCallback()
    usual = {"accelerator": "cpu", "enable_progress_bar": False, "enable_model_summary": False}
    made = pl.Trainer(callbacks=[*callbacks, added], default_root_dir=OUT, **usual, **options)
    return made, clock


def timed(made, clock, run):
    start, spent = time.perf_counter(), time.process_time()
    run()
    wall, spent = time.perf_counter() - start, time.process_time() - spent
    if made.is_global_zero:
        gaps = [1e3 * (b - a) for a, b in zip(clock.ends, clock.ends[1:], strict=False)]
        step = round(statistics.median(gaps), 4) if gaps else None
        result = {"wall_s": round(wall, 3), "step_ms": step, "steps": len(clock.ends)}
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print("RESULT " + json.dumps({**result, "fit_cpu_s": round(spent, 2), "peak_mib": peak}))
