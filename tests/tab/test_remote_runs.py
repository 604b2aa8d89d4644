"""Runs under a URL that fsspec serves are shown as local ones, and go on growing."""

import json
from pathlib import Path
from types import SimpleNamespace

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from made_records import make_session
from tensorboard.backend import application
from tensorboard.plugins import base_plugin
from werkzeug.test import Client

from lightning_gpuprof.records import remote
from lightning_gpuprof.records.writer import RecordWriter
from lightning_gpuprof.tab.loaded_runs import LoadedRuns
from lightning_gpuprof.tab.loader import GpuProfLoader

MS = 1_000_000
ROOT = "memory://tab/logs"
ROUTE = "/data/plugin/gpuprof"


class Remote:
    """A run in memory that trains: each call appends windows of ten steps."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer = RecordWriter(folder, rank=0)
        self._records = iter(make_session({"forward": MS}, steps=400, window=10, end=False))
        self.append(3)

    def append(self, count: int = 1) -> None:
        for _ in range(count):
            self._writer.write(next(self._records))
        self._writer.flush()
        for path in self._folder.rglob("*.jsonl"):
            url = f"{ROOT}/version_0/{path.relative_to(self._folder)}"
            fsspec.filesystem("memory").pipe(url, path.read_bytes())


@pytest.fixture
def live(tmp_path, monkeypatch):
    monkeypatch.setenv(remote.CACHE_VARIABLE, str(tmp_path / "cache"))
    yield Remote(tmp_path / "run")
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


def steps(run):
    return run.ranks[0].sessions[0].steps


def test_the_tab_lists_and_shows_runs_under_a_url(live):
    context = base_plugin.TBContext(logdir=ROOT, flags=SimpleNamespace(logdir_spec=""))
    client = Client(application.TensorBoardWSGI([GpuProfLoader().load(context)]))

    def answer(route, **query):
        response = client.get(f"{ROUTE}/{route}", query_string=query)
        assert response.status_code == 200, response.data
        return json.loads(response.data)

    (listed,) = answer("runs")["runs"]
    assert (listed["name"], listed["steps"]) == ("version_0", 20)
    assert answer("run", run="version_0")["steps"] == 20
    sections = answer("report", run="version_0")["sections"]
    assert "phases" in [section["id"] for section in sections]


def test_what_is_new_is_fetched_once_in_a_while(live):
    now = [0.0]
    runs = LoadedRuns(clock=lambda: now[0])
    run = runs.of("a", f"{ROOT}/version_0")
    assert steps(run) == 20
    live.append()
    assert runs.of("a", f"{ROOT}/version_0") is run
    now[0] += 10.0
    later = runs.of("a", f"{ROOT}/version_0")
    assert (steps(later), later.reader) == (30, run.reader)
