"""Reads `counter_collection.csv` of rocprofv3: a row per dispatch and hardware counter."""

from lightning_gpuprof.traces.files import csv_header, integer, read_csv
from lightning_gpuprof.traces.nvidia.ncu_csv import number
from lightning_gpuprof.traces.sniff import Head
from lightning_gpuprof.traces.tables import Counter, Tables

_COLUMNS = {"Kernel_Name", "Counter_Name", "Counter_Value"}


def matches(head: Head) -> bool:
    """Return whether the header is that of counters."""
    return csv_header(head.data) >= _COLUMNS


def read_tables(path: str) -> Tables:
    """Read every counter of every dispatch."""
    warnings: list[str] = []
    counters = tuple(
        Counter(
            launch=integer(row.get("Dispatch_Id")) or 0,
            kernel=row["Kernel_Name"],
            name=row["Counter_Name"],
            value=number(row["Counter_Value"]),
        )
        for row in read_csv(path, warnings)
    )
    return Tables("rocprofv3-counters", "counters", counters=counters, warnings=tuple(warnings))
