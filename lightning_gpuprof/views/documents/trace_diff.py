"""Two trace files side by side, as plain values and as text."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lightning_gpuprof.analysis.compare.trace_diff import compare_traces
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.units import duration, shortened
from lightning_gpuprof.views.documents.trace_payload import analyze_file
from lightning_gpuprof.views.documents.work_payload import diff_payload

_SHOWN = 10
_NAME_WIDTH = 60
_PARTS = ("span_ns", "compute_ns", "exposed_comm_ns", "exposed_copy_ns", "idle_ns")


def are_traces(base: str, test: str) -> bool:
    """Tell two trace files from two runs.

    Raises:
        ConfigError: One is a trace, the other is not.
    """
    traces = [path for path in (base, test) if is_trace(path)]
    if len(traces) == 1:
        other = test if traces == [base] else base
        why = "is not" if Path(other).exists() else "does not exist"
        raise ConfigError(
            f"{traces[0]} is a trace file and {other} {why}. Pass two runs' log dirs, or two "
            "trace files."
        )
    return len(traces) == 2


def is_trace(path: str) -> bool:
    """Tell a trace file from a run, which is a folder, or a record file in one."""
    return Path(path).is_file() and not path.endswith(".jsonl")


def diff_files(base: str, test: str) -> dict[str, Any]:
    """Analyse two trace files and return what changed from the first to the second.

    Raises:
        TraceError: One of them cannot be read.
    """
    found = compare_traces(analyze_file(base), analyze_file(test))
    return {"schema_version": 1, "base": base, "test": test, **diff_payload(found)}


def diff_lines(document: dict[str, Any]) -> Iterator[str]:
    """Yield a difference as lines for a terminal, the largest changes first."""
    yield f"{document['base']} -> {document['test']}"
    for note in document["notes"]:
        yield f"! {note}"
    if document["per_step"]:
        before, after = document["base_step_ns"], document["test_step_ns"]
        yield f"Median step: {duration(before)} -> {duration(after)}{_percent(before, after)}"
    basis = " per step" if document["per_step"] else ""
    gpu = [row for row in document["gpu"] if row["name"] in _PARTS]
    for title, rows in (
        ("Device", gpu),
        ("Kernels by kind", document["categories"]),
        ("Kernels", document["kernels"]),
        ("Operators", document["operators"]),
        ("Copies", document["copies"]),
    ):
        changed = [row for row in rows if row["change"] != "same"][:_SHOWN]
        if changed:
            yield ""
            yield f"{title}, time{basis}"
        for row in changed:
            yield _row(row)


def _row(row: dict[str, Any]) -> str:
    before, after = row["base_ns"], row["test_ns"]
    short = shortened(row["name"], _NAME_WIDTH)
    change = f" ({row['change']})" if row["change"] in ("added", "removed") else ""
    times = f"{duration(before):>10} -> {duration(after):>10}"
    return f"  {short:<{_NAME_WIDTH}}  {times}{_percent(before, after)}{change}"


def _percent(before: float, after: float) -> str:
    return f"  {(after - before) / before:+.1%}" if before else ""
