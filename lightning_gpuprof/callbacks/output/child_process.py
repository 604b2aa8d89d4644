"""What processes of ours that are started beside training have in common."""

import os
from collections.abc import Mapping
from pathlib import Path

import lightning_gpuprof


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment, in which this very package is imported first.

    It may have been found by the current folder or a changed `sys.path`, which no child inherits.
    """
    package_root = str(Path(lightning_gpuprof.__file__).parents[1])
    paths = [package_root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, **(more or {}), "PYTHONPATH": os.pathsep.join(paths)}
