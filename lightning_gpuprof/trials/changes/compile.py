"""Compiles the direct submodules of the model with torch.compile. Results differ by rounding.

The first step takes long. `try` says after how many steps the gain has made up for that.
"""

import os
import shutil

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.settings import settings_of
from lightning_gpuprof.records.trials import ChangedSettings
from lightning_gpuprof.trials.change import PASSES, Change, Values


def _values(run: RunResults) -> Values:
    variable, default = ("CC", "gcc") if run.on_gpu else ("CXX", "g++")
    if not shutil.which(os.environ.get(variable, default)):
        return f"torch.compile finds no compiler here ({default})"
    return "it is compiled already" if settings_of(run.start).compiled else [True]


CHANGE = Change(
    values=_values,
    write=lambda value, run: ChangedSettings(
        lines=("for part in model.children(): part.compile()",)
    ),
    phases=PASSES,
    findings=("memory-bound-kernels", "small-kernels", "host-bound", "slow-python"),
)
