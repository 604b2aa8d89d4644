"""Files of known kinds that are not read: each is named, with what to give instead."""

import pytest

from lightning_gpuprof.cli import main
from lightning_gpuprof.errors import UnknownTraceError
from lightning_gpuprof.traces import find_reader

NSYS = "nsys export --type sqlite"
CASES = {
    "a.zip": (b"PK\x03\x04" + bytes(26), "packed", "unpack"),
    "a.tar": (bytes(257) + b"ustar\x0000" + bytes(247), "packed", "unpack"),
    "a.json.zst": (b"\x28\xb5\x2f\xfd\x04\x00", "packed", "unpack"),
    "run.nsys-rep": (b"\x01\x02\x03", "Nsight Systems", NSYS),
    "run.qdrep": (b"\x01\x02\x03", "Nsight Systems", NSYS),
    "run.ncu-rep": (b"\x01\x02\x03", "Nsight Compute", "ncu --import"),
    "run.pftrace": (b"\x01\x02\x03", "Perfetto", "export JSON"),
    "nvprof.log": (b"==7== NVPROF is profiling process 7\n", "nvprof", "nsys profile"),
    "stats.txt": (b" ** A:\n\n Time (%)  Total Time (ns)  Name\n", "nsys", "--format csv"),
    "ncu.txt": (b"  gemm\n    Section: A\n    ------ ------\n", "Nsight Compute", "ncu --csv"),
    "failed.csv": (b"==ERROR== ERR_NVGPUCTRPERM\n", "without a CSV table", "--csv"),
    "rpd.json": (b'[ {}\n,{"ph":"X","args":{"desc":"Kernel"}}]', "rpd2tracing", ".rpd"),
    "proton.hatchet": (
        b'[{"children": [], "frame": {"name": "ROOT"}}]',
        "Proton",
        "torch.profiler",
    ),
    "a.speedscope.json": (
        b'{"$schema": "https://www.speedscope.app/file-format-schema.json"}',
        "speedscope",
        "torch.profiler",
    ),
    "memory.raw.json": (
        b"[[-1, 1, 37888, 7], [5, 1, 512, 7]]",
        "memory timeline",
        "_dump_snapshot",
    ),
    "v1.json": (b'{"traceEvents":[{"ph":"X","BeginNs": "1"}]}', "rocprof v1", "results.db"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_cannot_be_read_is_named_with_what_to_give_instead(tmp_path, capsys, name):
    content, kind, advice = CASES[name]
    path = tmp_path / name
    path.write_bytes(content)

    assert main(["analyze", str(path)]) == 2

    said = capsys.readouterr().err
    assert str(path) in said
    assert kind in said
    assert advice in said
    assert said.count("\n") == 1


def test_a_text_that_is_no_trace_is_of_no_known_kind(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("\n\nTime is short.\n")

    with pytest.raises(UnknownTraceError, match="is not of a supported kind"):
        find_reader(str(path))
