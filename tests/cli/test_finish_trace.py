import gzip
import json
import sys
import types
import zlib

import pytest

from lightning_gpuprof.cli import main
from lightning_gpuprof.errors import TraceError


@pytest.fixture
def engine(monkeypatch):
    """A stand-in for the trace engine."""
    module = types.ModuleType("lightning_gpuprof.views.trace_payload")
    module.analyze_file = lambda path, **_: {"file": path}
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


@pytest.fixture
def plain(tmp_path):
    path = tmp_path / "rank0-cycle0.pt.trace.json"
    path.write_text(json.dumps({"traceEvents": [{"name": f"aten::add{i}"} for i in range(500)]}))
    return path


def finish(plain):
    return main(["finish-trace", "--keep-priority", str(plain)])


def test_the_plain_file_becomes_a_compressed_one_with_its_analysis(engine, plain):
    content = plain.read_bytes()
    assert finish(plain) == 0
    packed = plain.with_name("rank0-cycle0.pt.trace.json.gz")
    assert gzip.decompress(packed.read_bytes()) == content
    analysis = json.loads(packed.with_name(packed.name + ".analysis.json").read_text())
    assert analysis == {"file": str(packed)}
    assert sorted(p.name for p in plain.parent.iterdir()) == [
        packed.name,
        packed.name + ".analysis.json",
    ]


def test_a_trace_that_cannot_be_analysed_is_kept_compressed(engine, plain, capsys):
    def fail(path, **_):
        raise TraceError("holds no events")

    engine.analyze_file = fail
    assert finish(plain) == 1
    assert "holds no events" in capsys.readouterr().err
    assert [p.name for p in plain.parent.iterdir()] == ["rank0-cycle0.pt.trace.json.gz"]


def test_what_is_no_plain_trace_is_refused(tmp_path, capsys):
    assert finish(tmp_path / "x.json.gz") == 2
    assert "no plain trace file" in capsys.readouterr().err


def test_real_traces_stay_below_1_7_times_the_smallest_size(engine, shared_traces, tmp_path):
    source = shared_traces / "kineto/tracelens-h100/gaunernst_bert-small-uncased__1016001.json.gz"
    content = gzip.decompress(source.read_bytes())
    plain = tmp_path / "t.json"
    plain.write_bytes(content)
    finish(plain)
    assert (tmp_path / "t.json.gz").stat().st_size <= 1.7 * len(zlib.compress(content, 9))
