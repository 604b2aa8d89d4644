import gzip
import zlib
from types import SimpleNamespace

import pytest

from lightning_gpuprof.capture import trace_files
from lightning_gpuprof.capture.cycles import FinishedCycle
from lightning_gpuprof.capture.trace_files import FIRST_BYTES, TraceFiles, put_in_place

CONTENT = b'{"traceEvents": []}'


class Exported:
    """A recording whose file holds this content; None writes none, as Kineto on a full disk."""

    def __init__(self, content=CONTENT):
        self.content = content

    def export(self, path):
        if self.content is not None:
            with open(path, "wb") as file:
                file.write(self.content)


def output_in(folder, write=lambda record: None):
    return SimpleNamespace(run_dir=str(folder), rank=0, session=0, write=write, flush=lambda: None)


@pytest.fixture
def save(tmp_path):
    """Save recordings as the cycles of one run; returns its records by kind."""

    def run(*recordings):
        written = []
        files = TraceFiles(output_in(tmp_path, written.append))
        for cycle, recording in enumerate(recordings):
            files.save(FinishedCycle(cycle, 0, 0, recording, took_ns=0, stop_ns=0))
        return written

    return run


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "plugins" / "gpuprof"


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_trace_is_compressed_and_its_record_names_it(save, folder):
    (cycle,) = save(Exported())
    assert names(folder) == [cycle.trace_file] == ["rank0-cycle0.pt.trace.json.gz"]
    assert gzip.decompress((folder / cycle.trace_file).read_bytes()) == CONTENT
    assert cycle.trace_bytes == len(CONTENT)


def test_on_a_disk_without_room_for_both_a_trace_stays_plain(save, folder, monkeypatch):
    def full(*args):
        raise OSError("No space left on device")

    monkeypatch.setattr(trace_files.shutil, "copyfileobj", full)
    (cycle,) = save(Exported())
    assert names(folder) == [cycle.trace_file] == ["rank0-cycle0.pt.trace.json"]


def test_no_reader_sees_half_a_trace(save, folder):
    class Broken(Exported):
        def export(self, path):
            super().export(path)
            assert not path.endswith((".json", ".gz"))
            raise RuntimeError("disk full")

    with pytest.raises(RuntimeError):
        save(Broken())
    assert names(folder) == []


def test_nothing_remains_of_an_export_that_failed(save, folder):
    class Full(Exported):
        def export(self, path):
            super().export(f"{path}.tmp")  # as Kineto does, which renames it at last

    with pytest.raises(OSError, match="Is the disk full"):
        save(Full())
    assert names(folder) == []


def test_before_a_window_there_is_room_for_a_first_trace_or_one_more(tmp_path):
    free = [FIRST_BYTES - 1, FIRST_BYTES, len(CONTENT) - 1, len(CONTENT)]
    files = TraceFiles(output_in(tmp_path), free_bytes=lambda folder: free.pop(0))
    assert "has 64.0 MiB free, and a trace may need 64.0 MiB" in files.obstacle()
    assert files.obstacle() is None
    files.save(FinishedCycle(0, 0, 0, Exported(), took_ns=0, stop_ns=0))
    assert "has 18 B free, and a trace may need 19 B" in files.obstacle()
    assert files.obstacle() is None


def test_real_traces_stay_below_1_7_times_the_smallest_size(shared_traces, tmp_path):
    source = shared_traces / "kineto/tracelens-h100/gaunernst_bert-small-uncased__1016001.json.gz"
    content = gzip.decompress(source.read_bytes())
    exported, plain = tmp_path / "exported", tmp_path / "t.json"
    exported.write_bytes(content)
    assert put_in_place(str(exported), str(plain), compressed=True) == str(tmp_path / "t.json.gz")
    assert (tmp_path / "t.json.gz").stat().st_size <= 1.7 * len(zlib.compress(content, 9))
