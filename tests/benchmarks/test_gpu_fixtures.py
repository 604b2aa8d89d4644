"""All that `make gpu` packs can be read."""

import importlib
import tarfile
from collections import Counter

from lightning_gpuprof.records.files import SNAPSHOT_SUFFIX, TRACE_SUFFIX
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.views.documents.other_files import snapshot_payload
from lightning_gpuprof.views.documents.report import load_report
from lightning_gpuprof.views.documents.trace_payload import analyze_file


def read_everything(archive, folder):
    """Read runs, traces and snapshots as the commands do; returns how many of each there were."""
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    seen = Counter()
    for records in sorted(folder.rglob("plugins/gpuprof/rank0.jsonl")):
        run = records.parents[2]
        sessions = read_run(str(run))[0].sessions
        seen.update(f"sessions on {one.start.device.type}" for one in sessions)
        if any(one.steps for one in sessions):
            seen["reports with steps"] += bool(load_report(str(run)).payload()["steps"])
    for trace in sorted(folder.rglob(f"*{TRACE_SUFFIX}")):
        seen["traces with kernels"] += bool(analyze_file(str(trace))["kernels"])
    for snapshot in sorted(folder.rglob(f"*{SNAPSHOT_SUFFIX}")):
        devices = snapshot_payload(str(snapshot))["devices"]
        seen["snapshots with a site"] += any(one["peak"]["sites"] for one in devices)
    return seen


def test_all_that_is_packed_is_read(fault_suite, made_runs, tmp_path):
    gpu = importlib.import_module("gpu")
    made_runs.two_cycle_run(tmp_path / "work" / "runs" / "example" / "version_0")
    gpu.pack(tmp_path / "work", tmp_path / "packed.tar.gz")
    assert read_everything(tmp_path / "packed.tar.gz", tmp_path / "read") == {
        "sessions on cuda": 1,
        "reports with steps": 1,
        "traces with kernels": 2,
        "snapshots with a site": 1,
    }
