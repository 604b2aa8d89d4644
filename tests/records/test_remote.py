"""Runs under a URL are fetched into a local copy, which is continued as they grow."""

import os
from dataclasses import replace
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from made_records import make_session

from lightning_gpuprof.analysis.run.run import analyze_run
from lightning_gpuprof.cli import main
from lightning_gpuprof.errors import ConfigError, RecordError
from lightning_gpuprof.records import remote
from lightning_gpuprof.records.files import record_files
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.remote import RemoteFiles, fetched, local_path, remote_runs
from lightning_gpuprof.records.writer import RecordWriter
from lightning_gpuprof.report.load import load_report

MS = 1_000_000
URL = "memory://bucket/logs/version_0"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv(remote.CACHE_VARIABLE, str(folder))
    yield folder
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


@pytest.fixture
def memory():
    return fsspec.filesystem("memory")


@pytest.fixture
def run(tmp_path):
    """A local run of two ranks, which `upload` copies to the URL."""
    for rank in (0, 1):
        write(tmp_path / "run", rank, make_session({"forward": 3 * MS}, rank=rank, world_size=2))
    return tmp_path / "run"


def write(run, rank, records):
    writer = RecordWriter(run, rank=rank)
    for record in records:
        writer.write(record)
    writer.flush()
    writer.close()


def upload(run, url=URL):
    for path in Path(run).rglob("*.*"):
        fsspec.filesystem("memory").pipe(f"{url}/{path.relative_to(run)}", path.read_bytes())


@pytest.fixture
def bytes_fetched(monkeypatch):
    """How many bytes were fetched, by the name of the file."""
    counted = {}

    def count(name, method):
        original = getattr(RemoteFiles, method)

        def counting(self, path, *arguments):
            result = original(self, path, *arguments)
            size = self.size(path) if method == "fetch" else len(result)
            counted[os.path.basename(path)] = counted.get(os.path.basename(path), 0) + size
            return result

        monkeypatch.setattr(RemoteFiles, method, counting)

    count("whole", "fetch")
    count("range", "read_range")
    return counted


def test_a_report_on_a_url_is_that_of_the_local_run(run):
    upload(run)
    report, local = load_report(URL), load_report(str(run))
    assert report.results.ranks == local.results.ranks
    assert report.findings == local.findings
    assert report.notices[0].startswith(f"{URL} was fetched into ")
    assert report.notices[1:] == local.notices


def test_a_folder_of_runs_has_a_newest_run(run, tmp_path):
    upload(run)
    write(tmp_path / "other", 0, make_session({"forward": MS}, steps=7))
    upload(tmp_path / "other", "memory://bucket/logs/version_1")
    report = load_report("memory://bucket/logs")
    assert os.path.basename(report.run) in ("version_0", "version_1")
    assert "holds 2 runs" in report.notices[1]


def test_spans_of_steps_go_with_a_url(run):
    upload(run)
    assert load_report(f"{URL}@10-49").results.steps.count == 40
    assert local_path(f"{URL}@10-49") == f"{fetched(URL)}@10-49"


def test_a_local_path_stays_as_it_is(tmp_path):
    assert local_path(str(tmp_path)) == str(tmp_path)


def test_of_a_growing_file_only_new_bytes_are_fetched(run, bytes_fetched):
    upload(run)
    assert fetched(URL) == fetched(URL)
    whole = {path.name: path.stat().st_size for path in run.rglob("*.*")}
    assert bytes_fetched == whole
    bytes_fetched.clear()
    write(run, 1, make_session({"forward": 2 * MS}, session=1, rank=1, world_size=2))
    upload(run)
    copy = fetched(URL)
    grown = {path.name: path.stat().st_size - whole[path.name] for path in run.rglob("*.*")}
    assert grown["rank1.jsonl"] > 1_000
    assert grown["rank0.jsonl"] == 0
    # The end of what was fetched before is read again, by which the file is known.
    assert bytes_fetched == {name: more + min(256, whole[name]) for name, more in grown.items()}
    for rank, path in record_files(copy).items():
        assert Path(path).read_bytes() == Path(record_files(str(run))[rank]).read_bytes()


def test_a_file_that_began_anew_is_fetched_as_a_whole(run, tmp_path):
    upload(run)
    fetched(URL)
    other = tmp_path / "other"
    write(other, 1, make_session({"forward": 9 * MS}, steps=300, rank=1, world_size=2))
    upload(other)
    path = record_files(fetched(URL))[1]
    assert Path(path).read_bytes() == Path(record_files(str(other))[1]).read_bytes()


def test_a_copy_that_was_damaged_or_deleted_is_mended(run, memory):
    upload(run)
    copy = record_files(fetched(URL))
    Path(copy[0]).unlink()
    Path(copy[1]).write_bytes(b"no record\n")
    memory.pipe(f"{URL}/plugins/gpuprof/rank1.jsonl", Path(record_files(str(run))[1]).read_bytes())
    for rank, path in record_files(fetched(URL)).items():
        assert Path(path).read_bytes() == Path(record_files(str(run))[rank]).read_bytes()


def test_a_file_that_was_deleted_is_deleted_in_the_copy(run, memory):
    upload(run)
    fetched(URL)
    memory.rm(f"{URL}/plugins/gpuprof/rank1.jsonl")
    assert list(record_files(fetched(URL))) == [0]


def test_only_files_of_this_package_and_traces_are_fetched(run, memory):
    upload(run)
    memory.pipe(f"{URL}/checkpoints/last.ckpt", b"large")
    memory.pipe(f"{URL}/rank0-cycle0.pt.trace.json", b"{}")
    copy = Path(fetched(URL))
    assert not (copy / "checkpoints").exists()
    assert (copy / "rank0-cycle0.pt.trace.json").read_bytes() == b"{}"


def test_a_name_that_leads_out_of_the_folder_is_left_out(run, memory, cache):
    upload(run)
    MemoryFileSystem.store["/bucket/logs/version_0/../../../evil.jsonl"] = memory.store[
        "/bucket/logs/version_0/plugins/gpuprof/rank0.jsonl"
    ]
    fetched(URL)
    assert [path for path in cache.rglob("evil*")] == []


def test_a_trace_is_analysed_by_its_url(memory, capsys):
    memory.pipe("memory://bucket/t.json", b'{"traceEvents": []}')
    status = main(["analyze", "memory://bucket/t.json"])
    assert status == 0
    assert "holds no device events" in capsys.readouterr().out


def test_what_is_wrong_with_a_url_is_said(run, monkeypatch):
    with pytest.raises(RecordError, match="memory://nothing holds no file"):
        fetched("memory://nothing")
    with pytest.raises(ConfigError, match=r"nosuch://a cannot be read: .*nosuch"):
        fetched("nosuch://a")

    def refuse(self, *_arguments, **_options):
        raise PermissionError("403 Forbidden")

    monkeypatch.setattr(MemoryFileSystem, "find", refuse)
    with pytest.raises(RecordError, match="cannot be listed: 403 Forbidden"):
        fetched(URL)
    assert remote_runs(URL) == []


def test_without_fsspec_the_error_says_what_to_install(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(remote, "import_module", missing)
    with pytest.raises(ConfigError, match="pip install fsspec"):
        fetched(URL)
    assert not remote.is_served(URL)


def test_runs_under_a_url_are_known_by_their_records(run):
    upload(run)
    upload(run, "memory://bucket/logs/deep/version_7")
    runs = ["memory://bucket/logs/deep/version_7", URL]
    assert remote_runs("memory://bucket/logs/") == sorted(runs)
    assert remote_runs(URL) == [URL]


def test_records_are_read_over_fsspec_too(run):
    upload(run)
    ranks = read_run(URL, RemoteFiles(URL))
    results, local = analyze_run(ranks, {}), analyze_run(read_run(str(run)), {})
    assert results.ranks == local.ranks
    assert replace(results.steps) == local.steps
    assert RemoteFiles(URL).read_range(f"{URL}/plugins/gpuprof/rank0.jsonl", 2, 4) == b"kind"
    assert RemoteFiles(URL).listdir(f"{URL}/none") == []
