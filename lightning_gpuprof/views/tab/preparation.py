"""What the processes that prepare files for the tab have in common."""

import os
import sys
from collections.abc import Callable

from lightning_gpuprof.errors import GpuProfError
from lightning_gpuprof.low_priority import step_back


def prepare(write: Callable[[str], object]) -> None:
    """Be the process that writes one file: behind all others, with one sentence on what fails.

    Args:
        write: Called with the path that the process was given.
    """
    step_back(os.getpid())
    try:
        write(sys.argv[1])
    except (GpuProfError, OSError) as problem:
        sys.exit(str(problem))
