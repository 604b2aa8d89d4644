"""Runs are held between requests by their bytes, and a run that grows is held once."""

import gc
import weakref

import pytest
from made_records import make_session

from lightning_gpuprof.records.writer import RecordWriter
from lightning_gpuprof.tab import loaded_runs
from lightning_gpuprof.tab.loaded_runs import LoadedRuns

MS = 1_000_000


class Live:
    """A run that trains: each call appends a window."""

    def __init__(self, folder, steps=400):
        self.path = str(folder)
        self._writer = RecordWriter(self.path, rank=0)
        self._records = iter(make_session({"forward": MS}, steps=steps, window=10, end=False))
        self.append(2)

    def append(self, count=1):
        for _ in range(count):
            self._writer.write(next(self._records))
        self._writer.flush()


@pytest.fixture
def runs(monkeypatch):
    monkeypatch.setattr(loaded_runs, "RESULTS_BYTES", 0)
    return LoadedRuns(most_bytes=10_000)


def steps(run):
    return run.ranks[0].sessions[0].steps


def test_a_run_is_the_same_object_until_its_files_change(tmp_path, runs):
    live = Live(tmp_path)
    run = runs.of("a", live.path)
    assert runs.of("a", live.path) is run
    live.append()
    later = runs.of("a", live.path)
    assert later is not run
    assert (steps(later), later.reader) == (20, run.reader)


def test_of_a_run_that_grows_one_copy_is_held(tmp_path, runs):
    live, earlier = Live(tmp_path), []
    for _ in range(20):
        run = runs.of("a", live.path)
        run.ranks  # noqa: B018 - reads them
        earlier.append(weakref.ref(run))
        live.append()
    del run
    gc.collect()
    assert sum(reference() is not None for reference in earlier) == 1
    assert len(runs._runs) == 1


def test_runs_are_held_up_to_so_many_bytes_the_last_ones(tmp_path, runs):
    lives = [Live(tmp_path / str(number)) for number in range(6)]
    for live in lives:
        live.append(10)
        run = runs.of(live.path, live.path)
        assert steps(run) == 110
    assert 4_000 < run.reader.num_bytes < 5_000  # two fit in beside the run that is asked for
    assert [name for name, _ in runs._runs] == [live.path for live in lives[-3:]]
    assert runs.of(live.path, live.path) is run


def test_a_run_beyond_the_bound_is_held_while_it_is_asked_for(tmp_path, runs):
    large, small = Live(tmp_path / "large", steps=9_000), Live(tmp_path / "small")
    large.append(800)
    run = runs.of("large", large.path)
    assert steps(run) == 8_010
    assert run.reader.num_bytes > 10_000
    assert runs.of("large", large.path) is run
    runs.of("small", small.path)
    assert [name for name, _ in runs._runs] == ["small"]
