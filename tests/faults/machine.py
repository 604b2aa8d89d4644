"""Faults of the machine under a run: torch's profiler, disks, threads, limits, folders, streams."""

import gc
import gzip
import logging
import os
import resource
import shutil
import socket
import sys
import tempfile
import threading
import warnings
from pathlib import Path
from types import SimpleNamespace

import torch
from faults.rig import put, raises, row

from lightning_gpuprof.capture import trace_files
from lightning_gpuprof.records import writer

NO_THREAD, FULL = RuntimeError("can't start new thread"), OSError(28, "No space left on device")
KINETO, AUTOGRAD = torch.profiler._KinetoProfile, torch.autograd.profiler


def afterwards(error, call):
    def both(*args, **kwargs):
        call(*args, **kwargs)
        raise error

    return both


def no_memory(model):
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + (16 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def no_files(model):
    most = len(os.listdir("/proc/self/fd")) + 8
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def in_place_of_records(make, name="rank0.jsonl"):
    def plant(run):
        folder = Path(run.folder) / "ours"
        (folder / "plugins" / "gpuprof").mkdir(parents=True)
        run.settings |= {"log_dir": str(folder)}
        make(folder / "plugins" / "gpuprof" / name)

    return plant


def link(target):
    return lambda path: path.symlink_to(target or path)


def gone(anything):
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    os.rmdir(folder)


def not_utf_8(*, whole):
    def plant(run):
        folder = os.fsdecode(os.fsencode(run.folder) + b"/na\xefve")
        os.makedirs(folder)
        run.settings |= {"log_dir": folder}
        if whole:
            run.folder = folder

    return plant


def all_warnings(run):
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", module="lightning|torch")


class Raises(logging.Handler):
    emit = raises(ValueError("handler"))


PROFILER = {"off": {"ProfilerSchedule"}, "says": "ProfilerSchedule failed and is off"}
NO_THREADS = put(threading.Thread, "start", raises(NO_THREAD))
THREADS = {"off": {"LineSampler"}, "says": "LineSampler failed and is off"}
UNWRITABLE = {"says": "cannot write to|No trace is recorded", "records": False}
ANY = {"off": None, "says": ".", "loose": True}
REPORT = {"report": True, "console": True}
# fmt: off
for name in ("prepare_trace", "start_trace", "export_chrome_trace", "stop_trace"):
    if name != "stop_trace":  # torch would go on recording, and is left alone
        row(f"a profiler that fails in {name}", put(KINETO, name, raises(NO_THREAD)), **PROFILER, fast=True)
    row(f"a profiler that fails after {name}", put(KINETO, name, afterwards(NO_THREAD, getattr(KINETO, name))), **PROFILER)
row("a profiler whose warm-up fails inside torch", put(AUTOGRAD, "_prepare_profiler", raises(NO_THREAD)), **PROFILER, fast=True)
row("a profiler whose start fails inside torch", put(AUTOGRAD, "_enable_profiler", raises(NO_THREAD)), **PROFILER)
row("a profiler that cannot be made", put(KINETO, "__init__", raises(MemoryError())), **PROFILER)
row("a trace for which there is no room", put(KINETO, "export_chrome_trace", raises(FULL)), says="could not be written.*No space", fast=True)
row("a disk without room for a second copy", put(shutil, "copyfileobj", raises(FULL)))
row("a disk that is nearly full", put(shutil, "disk_usage", lambda path: SimpleNamespace(free=1 << 20)), says="has 1.00 MiB free", fast=True)
row("a disk that is full", put(writer, "_write_all", raises(FULL)), **UNWRITABLE)
row("a disk that fills up", plan={"training_step 4": put(writer, "_write_all", raises(FULL))}, says="cannot write to", fast=True)
row("files that may not grow", lambda run: resource.setrlimit(resource.RLIMIT_FSIZE, (12_000,) * 2), options={"enable_checkpointing": False}, says="could not be written", fast=True)
row("a machine without a fast gzip", put(trace_files, "_GzipFile", gzip.GzipFile))
row("a machine without a name", put(socket, "gethostname", raises(FULL)))
row("an interpreter that does not know its path", put(sys, "executable", None), fast=True)
row("threads that do not start", NO_THREADS, **THREADS, fast=True)
row("a limit of processes", lambda run: resource.setrlimit(resource.RLIMIT_NPROC, (1, 1)), **ANY)  # none for root
row("a limit of memory", plan={"on_train_batch_start 0": no_memory}, **ANY)
row("a limit of open files", plan={"on_train_start": no_files}, **ANY)
row("records that are a pipe", in_place_of_records(os.mkfifo), **UNWRITABLE, fast=True)
row("records that are a full device", in_place_of_records(link("/dev/full")), **UNWRITABLE, fast=True)
row("records that are an endless device", in_place_of_records(link("/dev/zero")), **UNWRITABLE)
row("records that are a folder", in_place_of_records(Path.mkdir), **UNWRITABLE)
row("records that are a link to themselves", in_place_of_records(link(None)), **UNWRITABLE)
row("records of another rank that are a pipe", in_place_of_records(os.mkfifo, "rank1.jsonl"), settings=REPORT)
row("a file where our folder should be", in_place_of_records(lambda path: (path.parent.rmdir(), path.parent.write_text(""))), **UNWRITABLE)
row("a working directory that is gone", gone, options={"enable_checkpointing": False}, fast=True)
row("a working directory that goes", plan={"training_step 2": gone}, settings=REPORT)
row("another working directory", plan={"training_step 2": lambda model: os.chdir("/")})
row("a folder that is not UTF-8", not_utf_8(whole=True), says="not UTF-8", fast=True)
row("a log dir of ours that is not UTF-8", not_utf_8(whole=False), says="not UTF-8", settings=REPORT)
row("a log dir that is deleted", plan={"training_step 4": lambda m: shutil.rmtree(f"{m.trainer.log_dir}/plugins", ignore_errors=True)}, **ANY)
row("warnings that are errors", NO_THREADS, plan={"setup": lambda m: warnings.filterwarnings("error", category=RuntimeWarning)}, **THREADS, fast=True)
row("warnings that are all errors", all_warnings, settings=REPORT)
row("a log handler that fails", NO_THREADS, plan={"setup": lambda m: logging.getLogger("lightning_gpuprof").addHandler(Raises())}, **THREADS, fast=True)
row("an error output that is missing", put(sys, "stderr", None), settings=REPORT, fast=True)
row("an error output that is closed", plan={"on_train_end": lambda m: sys.stderr.close()}, settings=REPORT)
row("a report at the end", settings=REPORT)
row("a collector that is off", lambda run: gc.disable())
row("a recursion limit that is low", lambda run: sys.setrecursionlimit(220))
# fmt: on
