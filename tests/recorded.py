"""Lays out the recordings of tests/data/h100 as their runs left them.

`python tests/recorded.py LOGDIR` does it for TensorBoard.
"""

import gzip
import re
import shutil
import sys
from pathlib import Path

import msgspec

from lightning_gpuprof.analysis.trace_analysis import analyze_file
from lightning_gpuprof.records.files import ANALYSIS_SUFFIX, TRACE_SUFFIX
from lightning_gpuprof.report.charts.layout_file import write_layout

RECORDED = Path(__file__).parent / "data" / "h100"
FAULTS = Path(__file__).parent / "data" / "faults"


def lay_out(logdir: Path) -> Path:
    """Write all of the runs to a new folder, traces analysed as training does it; returns it."""
    shutil.copytree(RECORDED, logdir)
    for packed in logdir.rglob("*.pickle.gz"):
        packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
        packed.unlink()
    for trace in logdir.rglob(f"*{TRACE_SUFFIX}"):
        write_analysis(trace)
        write_layout(str(trace))
    return logdir


def write_analysis(trace: Path) -> None:
    """Write the analysis of a trace beside it, as training does."""
    document = msgspec.json.encode(analyze_file(str(trace)))
    trace.with_name(trace.name + ANALYSIS_SUFFIX).write_bytes(document)


def lay_out_faults(logdir: Path) -> dict[str, Path]:
    """Write the recorded runs of the fault suite to a new folder; returns them by their cause."""
    runs = {}
    for packed in sorted(FAULTS.glob("*.jsonl.gz")):
        cause = packed.name.removesuffix(".jsonl.gz")
        runs[cause] = logdir / cause
        folder = runs[cause] / "plugins" / "gpuprof"
        folder.mkdir(parents=True)
        (folder / "rank0.jsonl").write_bytes(gzip.decompress(packed.read_bytes()))
        trace = FAULTS / f"{cause}{TRACE_SUFFIX}"
        if trace.exists():
            write_analysis(shutil.copy(trace, folder / f"rank0-cycle0{TRACE_SUFFIX}"))
    return runs


def keys(value, at=""):
    """Yield the place of each key in a JSON document, by the keys on the way."""
    for key, inner in value.items() if isinstance(value, dict) else ():
        yield f"{at}.{key}"
        yield from keys(inner, f"{at}.{key}")
    for inner in value if isinstance(value, list) else ():
        yield from keys(inner, at)


def numbers(value, at=""):
    """Yield the place of every number in a JSON document, the keys on the way, and the number.

    A figure of a document, which has its name in `key`, has that name on the way too.
    """
    if isinstance(value, dict):
        if isinstance(value.get("key"), str):
            at = f"{at}.{value['key']}"
        for key, item in value.items():
            yield from numbers(item, f"{at}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from numbers(item, f"{at}[{index}]")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield at, re.sub(r"\[\d+\]", "", at).split("."), value


if __name__ == "__main__":
    lay_out(Path(sys.argv[1]))
