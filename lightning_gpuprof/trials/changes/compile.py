"""Compiles the model's parts with torch.compile; results differ by rounding.

The first step takes long: `try` says after how many steps that is made up for.
"""

import os
import shutil

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.trials.change import PASSES, Change, Values


def _values(run: RunResults) -> Values:
    variable, usual = ("CC", "gcc") if run.on_gpu else ("CXX", "g++")
    if not shutil.which(os.environ.get(variable, usual)):
        return f"torch.compile finds no compiler here ({usual})"
    return "it is compiled" if run.start.model.get("compiled") else [True]


CHANGE = Change(
    values=_values,
    write=lambda value, run: {"lines": ["for part in model.children(): part.compile()"]},
    phases=PASSES,
    findings=("memory-bound-kernels", "small-kernels", "host-bound", "slow-python"),
)
