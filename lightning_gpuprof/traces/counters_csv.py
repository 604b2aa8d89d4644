"""Reads tables of hardware counters: `counter_collection.csv` of rocprofv3, and older wide ones.

rocprofv3 writes a row per dispatch and counter. rocprof, rocprofv2 and rocprof-compute write a row
per dispatch, and each counter in a column beside those that describe it.
"""

from collections.abc import Iterable, Iterator, Mapping

from lightning_gpuprof.traces.files import csv_header, integer, read_csv
from lightning_gpuprof.traces.nvidia.ncu_csv import number
from lightning_gpuprof.traces.sniff import Head
from lightning_gpuprof.traces.tables import Counter, Tables

_COLUMNS = {"Kernel_Name", "Counter_Name", "Counter_Value"}
_KERNEL_NAMES = ("Kernel_Name", "KernelName")
_DEVICES = {"gpu-id", "GPU_ID"}
_LAUNCH = frozenset(
    "index kernelname gpuid queueid queueindex pid tid grd wgr lds scr vgpr archvgpr accumvgpr "
    "sgpr fbar wavesize sig obj dispatchns beginns endns completens durationns dispatchid kernelid "
    "gridsize workgroupsize ldsperworkgroup scratchperworkitem starttimestamp endtimestamp "
    "correlationid agentid processid threadid streamid node".split()
)
"""Columns that describe a dispatch, without their signs and in small letters."""


def matches(head: Head) -> bool:
    """Tell the file by its header."""
    header = csv_header(head.data)
    if header >= _COLUMNS:
        return True
    wide = header & set(_KERNEL_NAMES) and header & _DEVICES
    return bool(wide) and bool(counter_columns(header))


def counter_columns(header: Iterable[str]) -> list[str]:
    """Return the columns that hold counters.

    >>> counter_columns(["KernelName", "gpu-id", "SQ_WAVES"])
    ['SQ_WAVES']
    """
    return [name for name in header if name and _plain(name) not in _LAUNCH]


def warn_of_counters(header: Iterable[str], warnings: list[str]) -> None:
    """Say that a timeline's file holds counters too, which a timeline has no place for."""
    if found := counter_columns(header):
        warnings.append(
            f"{len(found)} columns of counters are not part of the timeline ({', '.join(found[:3])}"
            f"{', ...' if len(found) > 3 else ''})."
        )


def read_tables(path: str) -> Tables:
    """Read every counter of every dispatch."""
    warnings: list[str] = []
    counters = tuple(c for row in read_csv(path, warnings) for c in _counters(row))
    return Tables("rocprofv3-counters", "counters", counters=counters, warnings=tuple(warnings))


def _counters(row: Mapping[str, str]) -> Iterator[Counter]:
    launch = integer(row.get("Dispatch_Id", row.get("Dispatch_ID", row.get("Index")))) or 0
    kernel = next((row[name] for name in _KERNEL_NAMES if name in row), "")
    if "Counter_Name" in row:
        yield Counter(launch, kernel, row["Counter_Name"], number(row["Counter_Value"]))
        return
    for name in counter_columns(row):
        if row[name]:
            yield Counter(launch, kernel, name, number(row[name]))


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()
