import gzip
import json
import os
import zlib

import pytest

from lightning_gpuprof.cli import main
from lightning_gpuprof.cli.finish_trace import compress
from lightning_gpuprof.records.files import ANALYSIS_SUFFIX, DRAWING_SUFFIX


@pytest.fixture
def plain(tmp_path):
    path = tmp_path / "rank0-cycle0.pt.trace.json"
    events = [
        {"ph": "X", "cat": "cpu_op", "name": f"aten::add{i}", "pid": 1, "tid": 1, "ts": i, "dur": 1}
        for i in range(500)
    ]
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def finish(plain):
    return main(["finish-trace", "--keep-priority", str(plain)])


def test_the_plain_file_becomes_a_compressed_one_with_its_analysis_and_drawing(plain):
    content = plain.read_bytes()
    assert finish(plain) == 0
    packed = plain.with_name("rank0-cycle0.pt.trace.json.gz")
    assert gzip.decompress(packed.read_bytes()) == content
    analysis = json.loads(packed.with_name(packed.name + ANALYSIS_SUFFIX).read_text())
    assert analysis["file"] == str(packed)
    assert len(analysis["operators"]) == 500
    names = [packed.name, packed.name + ANALYSIS_SUFFIX, packed.name + DRAWING_SUFFIX]
    assert sorted(p.name for p in plain.parent.iterdir()) == sorted(names)


def test_who_begins_anew_after_the_compression_goes_on_from_there(plain):
    assert compress(str(plain)) == f"{plain}.gz"
    assert finish(plain) == 0
    assert plain.with_name(f"{plain.name}.gz{ANALYSIS_SUFFIX}").is_file()


def test_two_at_the_same_trace_do_not_disturb_each_other(plain, monkeypatch):
    content, second = plain.read_bytes(), iter([True])
    replace = os.replace

    def after_another(part, target):
        if next(second, False):
            monkeypatch.setattr(os, "getpid", lambda: 12345)
            finish(plain)
        replace(part, target)

    monkeypatch.setattr(os, "replace", after_another)
    assert finish(plain) == 0
    packed = plain.with_name(f"{plain.name}.gz")
    assert gzip.decompress(packed.read_bytes()) == content
    assert [p.name for p in plain.parent.iterdir() if p.name.endswith(".part")] == []


def test_who_finds_the_trace_compressed_at_the_last_moment_has_nothing_to_do(plain, monkeypatch):
    isfile, second = os.path.isfile, iter([True])

    def before_another(path):
        found = isfile(path)
        if next(second, False):
            compress(str(plain))
        return found

    monkeypatch.setattr(os.path, "isfile", before_another)
    assert compress(str(plain)) == f"{plain}.gz"


def test_a_trace_that_cannot_be_analysed_is_kept_compressed(plain, capsys):
    plain.write_text("this is no trace")
    assert finish(plain) == 1
    assert "was compressed but not analysed" in capsys.readouterr().err
    assert [p.name for p in plain.parent.iterdir()] == ["rank0-cycle0.pt.trace.json.gz"]


def test_what_is_no_plain_trace_is_refused(tmp_path, capsys):
    assert finish(tmp_path / "x.json.gz") == 2
    assert "not a plain trace file" in capsys.readouterr().err


def test_real_traces_stay_below_1_7_times_the_smallest_size(shared_traces, tmp_path):
    source = shared_traces / "kineto/tracelens-h100/gaunernst_bert-small-uncased__1016001.json.gz"
    content = gzip.decompress(source.read_bytes())
    plain = tmp_path / "t.json"
    plain.write_bytes(content)
    finish(plain)
    assert (tmp_path / "t.json.gz").stat().st_size <= 1.7 * len(zlib.compress(content, 9))
