"""Runs the cases that it is asked for by a line each, and answers with two exit statuses.

torch and Lightning are imported once. Each run is a fork, which ends as a program would:
`python -m faults.runner FOLDER`.
"""

import atexit
import gc
import json
import logging
import os
import random
import signal
import sys
import tempfile
import threading
import traceback
from pathlib import Path

import numpy as np
import torch
import torch._dynamo
from faults import around_us, captured, machine, program, rig  # noqa: F401 - they add their cases
from torch.utils.data import DataLoader

import lightning_gpuprof.callbacks.fit_report  # noqa: F401 - so that forks need not import it
from lightning_gpuprof.findings.registry import rules
from lightning_gpuprof.runtime.marker import write_marker

LONGEST_S = 60
"""A run that takes longer hangs; SIGALRM ends it."""


def warm_up(root):
    """Import and ask once what each run would, without a thread or a backward pass."""
    write_marker(f"{root}/marker")
    rules()
    run = rig.Run(f"{root}/warm-up", ours=False)
    run.make().validate(run.model, DataLoader(run.data), verbose=False)


def main(root):
    warm_up(root)
    gc.freeze()
    for line in sys.stdin:
        codes = []
        for ours in (False, True):
            folder = Path(root) / rig.slug(line.strip()) / ("with" if ours else "without")
            (folder / "run").mkdir(parents=True)
            child = os.fork()
            if not child:
                status = trained(rig.CASES[line.strip()], folder, ours)
                return status if ours else end_soon(status)
            _, status = os.waitpid(child, 0)
            codes.append(os.waitstatus_to_exitcode(status))
        sys.stdout.write(json.dumps(codes) + "\n")
        sys.stdout.flush()
    return 0


def end_soon(status):
    """End a run without us by all that a program's end does but to free memory, which takes long.

    One that would fail there would be told apart from the run with us, which does it all.
    """
    threading._shutdown()
    atexit._run_exitfuncs()
    os._exit(status)


def trained(case, folder, ours):
    """Train as a program; returns its exit status."""
    signal.alarm(LONGEST_S)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    result = os.open(folder / "result.json", os.O_WRONLY | os.O_CREAT)
    output = os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder / "tmp")
    os.mkdir(tempfile.tempdir)
    for seed in (torch.manual_seed, random.seed, np.random.seed):
        seed(7)
    said = Said()
    logging.getLogger("lightning_gpuprof").addFilter(said)
    run = rig.Run(str(folder / "run"), ours)
    before, error, status = rig.around(), None, 0
    try:
        case.plant(run)
        if run.trainer is None or run.trainer.state.fn is None:
            run.fit()
    except BaseException as raised:  # noqa: BLE001 - a program may raise anything
        error = type(raised).__name__, [repr(one) for one in raised.args if type(one) is str]
        status = exit_code(raised)
        traceback.print_exception(raised)
    after = rig.around()
    own, tmp = rig.files(run.folder)
    named = ("threads", "gc.callbacks")
    changed = [
        f"{name} {after[name] if name in named else ''}"
        for name in before
        if before[name] != after[name]
    ]
    found = {
        "error": error,
        "seen": run.model.seen,
        "left": changed + rig.left_in(run) + tmp,
        "files": own,
        "said": said,
    }
    os.write(result, json.dumps(found).encode())
    return status


class Said(list):
    """A filter that keeps what we show as a warning."""

    def __call__(self, record):
        if record.levelno >= logging.WARNING:
            self.append(record.getMessage())
        return True


def exit_code(raised):
    if not isinstance(raised, SystemExit):
        return 130 if isinstance(raised, KeyboardInterrupt) else 1
    return raised.code if isinstance(raised.code, int) else int(raised.code is not None)


if __name__ == "__main__":
    # Also of a fork, which ends as a program does: by the interpreter's own end.
    sys.exit(main(sys.argv[1]))
