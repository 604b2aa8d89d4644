"""One program as Kineto, Nsight Systems and rocprof record it: the same findings from each."""

import importlib.util
import json
import re
from pathlib import Path

import pytest
from read_documents import texts

from lightning_gpuprof.cli import main
from lightning_gpuprof.report.document import decode

MAKER = Path(__file__).parents[1] / "data" / "make_traces.py"
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
    assert main(["analyze", "--json", str(files / name)]) == 0
    document = decode(capsys.readouterr().out)
    cards = {card.id: card for card in document.findings}
    evidence = {figure.key: figure.value for card in document.findings for figure in card.evidence}
    assert {"slow-host-to-device-copy", "small-kernels", "host-sync"} <= set(cards)
    copies = cards["slow-host-to-device-copy"]
    assert evidence["exposed_copies_ns"] == 400_000
    assert "1 copy HtoD, 4.00 MiB of " in copies.advice
    assert "at 9.77 GiB/s" in copies.advice
    assert evidence["thin_kernels_frac"] == 1.0
    (limit,) = texts(document, "limit")
    assert re.fullmatch(r"GPU \d+% busy.*: it waits for the host\.", limit)
    assert document.verdict.sentence == document.findings[0].advice
