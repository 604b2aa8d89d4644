"""The analysis that is kept beside a trace: its version, and making an older one anew."""

import json
import os
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from lightning_gpuprof.records.files import (
    ANALYSIS_SUFFIX,
    LOCAL,
    TRACE_SUFFIX,
    plugin_dir,
    written_whole,
)

ANALYSIS_VERSION = 3
"""Of the tables of an analysis. Raise it whenever one comes, or comes to mean something else: rules
that need it would find nothing in what is kept of a trace. Documents from before have none."""


class _Head(msgspec.Struct):
    analysis_version: int = 0


def is_older(analysis: Mapping[str, Any], than: int = ANALYSIS_VERSION) -> bool:
    """Tell whether an analysis lacks what this version's rules may need.

    >>> is_older({"operators": []}), is_older({"analysis_version": ANALYSIS_VERSION + 1})
    (True, False)
    """
    version = analysis.get("analysis_version")
    return not isinstance(version, int) or version < than


def is_newer(analysis: Mapping[str, Any]) -> bool:
    """Tell whether a newer version made an analysis, which may be of another shape.

    >>> is_newer({"operators": []}), is_newer({"analysis_version": ANALYSIS_VERSION + 1})
    (False, True)
    """
    return not is_older(analysis, ANALYSIS_VERSION + 1)


def write_analysis(trace: str) -> str:
    """Write a trace's analysis beside it and return that file's name.

    It takes its name only when it is whole: readers see the one before until then.

    Raises:
        TraceError: The trace cannot be read.
        OSError: The file cannot be written.
    """
    # By name, so that whoever only asks for a version does not load the engine.
    options = import_module("lightning_gpuprof.traces").ReadOptions(stacks=True)
    payload = import_module("lightning_gpuprof.views.documents.trace_payload")
    document = payload.analyze_file(trace, options)
    path = trace + ANALYSIS_SUFFIX
    with written_whole(path) as part, open(part, "w", encoding="utf-8") as file:
        json.dump(document, file)
    return path


def older_analyses(run: str, *, or_newer: bool = False) -> list[str]:
    """Return a run's traces that are there, on this machine's disks, with an older analysis.

    One that is no whole document counts as that: nobody else would put it right. `or_newer` is for
    whoever makes each anew once: what goes on asking would never end where versions differ.
    """
    folder = Path(plugin_dir(run))
    names = (name.removesuffix(ANALYSIS_SUFFIX) for name in LOCAL.listdir(str(folder)))
    traces = (folder / name for name in dict.fromkeys(names) if name.endswith(TRACE_SUFFIX))
    kept = [(str(trace), _kept_version(trace)) for trace in traces if trace.exists()]
    return [
        trace
        for trace, version in kept
        if version < ANALYSIS_VERSION or (or_newer and version > ANALYSIS_VERSION)
    ]


def _kept_version(trace: Path) -> int:
    analysis = f"{trace}{ANALYSIS_SUFFIX}"
    try:
        stat = os.stat(analysis)
        return _version(analysis, stat.st_mtime_ns, stat.st_size)
    except OSError:
        return ANALYSIS_VERSION  # it has just gone
    except msgspec.MsgspecError:
        return 0


@lru_cache(maxsize=4096)
def _version(analysis: str, changed_ns: int, size: int) -> int:
    """Return a file's version, read once for each time that it changed: the tab asks often."""
    return msgspec.json.decode(Path(analysis).read_bytes(), type=_Head).analysis_version
