"""Files of known kinds that are not read: each is named, with what to give instead."""

import io
import tarfile
import zipfile

import pytest

from lightning_gpuprof.cli import main
from lightning_gpuprof.errors import TraceError, UnknownTraceError
from lightning_gpuprof.traces import find_reader


def zipped():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("trace.json", "{}")
    return file.getvalue()


def tarred():
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("trace.json"))
    return file.getvalue()


NSYS = "nsys export --type sqlite"
CASES = {
    "a.zip": (zipped(), "zip archive", "Unpack"),
    "a.tar": (tarred(), "tar archive", "Unpack"),
    "a.json.zst": (b"\x28\xb5\x2f\xfd\x04\x00", "packed", "Unpack"),
    "run.nsys-rep": (b"\x01\x02\x03", "Nsight Systems", NSYS),
    "run.qdrep": (b"\x01\x02\x03", "Nsight Systems", NSYS),
    "run.ncu-rep": (b"\x01\x02\x03", "Nsight Compute", "ncu --import"),
    "renamed": (b"NVR\x00\x01\x02", "Nsight Compute", "ncu --import"),
    "run.pftrace": (b"\x0a\x05\x01\x02\x03", "Perfetto", "rocpd"),
    "nvprof.log": (b"==7== NVPROF is profiling process 7\n", "nvprof", "nsys profile"),
    "stats.txt": (b" ** A:\n\n Time (%)  Total Time (ns)  Name\n", "nsys", "--format csv"),
    "ncu.txt": (b"  gemm\n    Section: A\n    ------ ------\n", "Nsight Compute", "ncu --csv"),
    "summary.csv": (b'"Kernel Name","Invocations","A"\n', "a summary", "--print-summary"),
    "failed.csv": (b"==ERROR== ERR_NVGPUCTRPERM\n", "without a CSV table", "--csv"),
    "npu.json": (b'[{"ph": "M", "args": {"name": "Ascend Hardware"}}]', "Ascend", "vendor"),
    "jax.json": (b'{"metadata":{"highres-ticks":true},"traceEvents":[', "JAX", "xplane.pb"),
    "old.json": (b'{"traceEvents":[{"ph":"M","name":"/device:GPU:0"}', "JAX", "xplane.pb"),
    "rpd.json": (b'[ {}\n,{"ph":"X","args":{"desc":"Kernel"}}]', "rpd2tracing", ".rpd"),
    "v1.json": (b'{"traceEvents":[{"ph":"X","BeginNs": "1"}]}', "rocprof v1", "results.db"),
    "counters.csv": (b'"Index","KernelName","gpu-id"\n0,"k",4\n', "counters", "rocprofv3 --pmc"),
    "timeline.csv": (b"Start (ns),Duration (ns),CorrId\n1,2,3\n", "nsys stats printed", ".sqlite"),
    "pc.csv": (b'"Sample_Timestamp","Exec"\n1,2\n', "without kernel times", "kernel_trace.csv"),
    "names.csv": (b'"Kernel_Id","Kernel_Name"\n', "without kernel times", "kernel_trace.csv"),
    "skipped.csv": (b"SKIPPED: a does not contain CUDA kernel data.\n", "without times", ".sqlite"),
    "sizes.csv": (b"Total (MB),Count,Avg (MB)\n1.0,2,0.5\n", "without times", ".sqlite"),
    "projected.csv": (b"Range,Style,Total Proj Time (ns)\n:a,P,5\n", "without times", ".sqlite"),
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

    with pytest.raises(UnknownTraceError, match="is not of a kind that can be read"):
        find_reader(str(path))


def test_a_trace_in_utf_16_is_named_for_it_is_read_block_by_block(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text('{"schemaVersion": 1, "traceEvents": []}', encoding="utf-16")

    with pytest.raises(TraceError, match="UTF-16"):
        find_reader(str(path))
