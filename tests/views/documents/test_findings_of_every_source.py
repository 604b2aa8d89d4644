"""One program as Kineto, Nsight Systems and rocprof record it: the same findings from each."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

from lightning_gpuprof.cli import main
from lightning_gpuprof.views.documents.trace_payload import analyze_file

MAKER = Path(__file__).parents[2] / "data" / "make_traces.py"
COUNT, BEGIN, EVERY = 100, 1_400_000, 20_000
COPY = (1_000_000, 1_400_000, 2, 2**22)
"""Nothing hides this copy."""
STARTS = [BEGIN + i * EVERY for i in range(COUNT)]
SYNC = (STARTS[-1] + 6_000, STARTS[-1] + 500_000, 500)
"""The last launch comes after this call, which waits for what has long been done."""
CALLS = [*STARTS, SYNC[1] + 1_000]
LAUNCHES = [(at, at + 4_000, 10 + i) for i, at in enumerate(CALLS)]
KERNELS = [("add_kernel(float*)", at + 6_000, at + 9_000, 10 + i) for i, at in enumerate(CALLS)]


def kineto(folder):
    def event(cat, name, start, end, corr, tid, **args):
        times = {"ts": start / 1000, "dur": (end - start) / 1000}
        args |= {"correlation": corr}
        return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, **times, "args": args}

    device = {"device": 0, "stream": 7}
    copy = event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", *COPY[:3], 7, **device)
    copy["args"]["bytes"] = COPY[3]
    launches = [event("cuda_runtime", "cudaLaunchKernel", *one, 1) for one in LAUNCHES]
    events = [
        copy,
        event("cuda_runtime", "cudaMemcpyAsync", 995_000, 999_000, 2, 1),
        event("cuda_runtime", "cudaDeviceSynchronize", *SYNC, 1),
        *launches,
        *(event("kernel", *one, 7, **device) for one in KERNELS),
    ]
    (folder / "kineto.json").write_text(json.dumps({"traceEvents": events}))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The program in every format."""
    folder = tmp_path_factory.mktemp("sources")
    spec = importlib.util.spec_from_file_location("make_traces", MAKER)
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    maker.HERE, maker.COPY, maker.KERNELS, maker.SYNCS = folder, COPY, KERNELS, (SYNC,)
    maker.LAUNCHES = [(995_000, 999_000, 2), *LAUNCHES]
    for write in (maker.nsys, maker.rocprofv3_json, maker.rocpd):
        write()
    kineto(folder)
    return folder


@pytest.mark.parametrize(
    "name", ["kineto.json", "nsys.sqlite", "rocprofv3_results.json.gz", "rocpd.db"]
)
def test_copies_syncs_and_small_kernels_are_found_alike(files, name, capsys):
    document = analyze_file(str(files / name))
    found = {one["id"]: one for one in document["findings"]}
    assert {"slow-host-to-device-copy", "small-kernels", "host-sync"} <= set(found)
    copies = found["slow-host-to-device-copy"]
    assert copies["evidence"]["exposed_copies_ns"] == 400_000
    assert "1 copy HtoD, 4.00 MiB of " in copies["advice"]
    assert "at 9.77 GiB/s" in copies["advice"]
    assert found["small-kernels"]["evidence"]["thin_kernels_frac"] == 1.0
    assert main(["analyze", str(files / name)]) == 0
    _, limit, change, *_ = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"GPU \d+% busy.*: it waits for the host\.", limit)
    assert change == document["findings"][0]["advice"]
