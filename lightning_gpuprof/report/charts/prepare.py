"""Makes a file that the tab shows, in a process of its own: `... prepare KIND PATH ...`."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module

from lightning_gpuprof.errors import GpuProfError

KINDS = {
    "comparison": "lightning_gpuprof.report.comparison:write_comparison",
    "analysis": "lightning_gpuprof.report.stored_analysis:write_analysis",
    "timeline": "lightning_gpuprof.report.charts.layout_file:write_layout",
    "job": "lightning_gpuprof.report.stored_job:write_job",
    "memory": "lightning_gpuprof.report.charts.memory_sites:write_sites",
}
"""By kind, the function that makes the file. It takes the path of a trace, of a snapshot or of
a folder with all ranks' traces, or the paths of two runs and of the file to make."""


def main(kind: str, *paths: str) -> None:
    """Make one file; a failure ends the process with a sentence on stderr."""
    with suppress(OSError, AttributeError):
        os.nice(19)  # lower priority, because a training may run on this machine
    module, _, function = KINDS[kind].partition(":")
    write: Callable[..., object] = getattr(import_module(module), function)
    try:
        write(*paths)
    except (GpuProfError, OSError) as problem:
        sys.exit(str(problem))


if __name__ == "__main__":
    main(*sys.argv[1:])
