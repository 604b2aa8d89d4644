"""Fixtures that every test folder may use."""

import gzip
import importlib.util
import json
import os
import re
import signal
import sys
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest
from analyzed import made_analysis
from fake_device import FakeDevice
from made_records import make_session
from made_records import write_run as write_records
from snapshot_builder import SnapshotBuilder

from lightning_gpuprof.analysis.run.run import analyze_run
from lightning_gpuprof.analysis.savings.conformal import Calibration
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import ProfilerCycle

# One thread per test process: two cores are all that CI has.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# what a terminal or CI says of itself, and a user's own pairs
for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "LIGHTNING_GPUPROF_PAIRS"):
    os.environ.pop(name, None)

CYCLE = ProfilerCycle(cycle=0, first_step=3, last_step=4, trace_file="t.gz", trace_bytes=1_000)
SHARED_TRACES = Path(__file__).parents[2] / "shared" / "traces"
EXAMPLES = Path(__file__).parents[1] / "example_projects"


@pytest.fixture(autouse=True)
def _sigint():
    """Lightning ignores SIGINT after a Ctrl-C, and child processes would inherit that."""
    handler = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, handler)


@pytest.fixture(autouse=True)
def _models_alone(monkeypatch):
    """Savings are those of the models, whatever pairs were measured for this version."""
    monkeypatch.setattr("lightning_gpuprof.findings.calibrated.calibration", Calibration)


@pytest.fixture
def figure():
    """Note a figure for the results of the benchmarks; one beyond its limit fails the test."""
    path = Path(__file__).parents[1] / "benchmarks" / "_figures.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    figures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(figures)

    def note(name, value, **limits):
        assert figures.figure(name, value, **limits), name

    return note


@pytest.fixture
def said(caplog):
    """Check that a line is shown within a block, as `pytest.warns` does of warnings."""

    @contextmanager
    def expect(match):
        texts, begun = [], len(caplog.records)
        with caplog.at_level("INFO", logger="lightning_gpuprof"):
            yield texts
        texts += [record.getMessage() for record in caplog.records[begun:]]
        assert any(re.search(match, text) for text in texts), texts

    return expect


@pytest.fixture
def example(monkeypatch):
    """Return a function that makes one example's modules importable for this test."""
    before = set(sys.modules)

    def enter(name):
        if not (EXAMPLES / name).is_dir():
            pytest.skip("the example projects are not part of this copy of the sources")
        monkeypatch.syspath_prepend(str(EXAMPLES / name))
        return EXAMPLES / name

    yield enter
    for name in set(sys.modules) - before:
        if str(EXAMPLES) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture(scope="session")
def shared_traces() -> Path:
    """The folder of real traces from public projects, kept outside this repository."""
    if not SHARED_TRACES.is_dir():
        pytest.skip("the real traces are not beside this checkout (../shared/traces)")
    return SHARED_TRACES


@pytest.fixture
def write_trace(write_text):
    """Write events as a Kineto file; returns its path."""

    def write(events, *, name="trace.json", bare=False, **header):
        document = events if bare else {**header, "traceEvents": events}
        return write_text(json.dumps(document, indent=1), name=name)

    return write


@pytest.fixture
def write_text(tmp_path):
    """Write text as it stands, gzipped where the name says so; returns its path."""

    def write(text, *, name="trace.json"):
        data = text if isinstance(text, bytes) else text.encode()
        path = tmp_path / name
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return str(path)

    return write


def _event(name, ts, dur, pid, tid, cat, args):
    event = {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur}
    return event | ({"args": args} if args else {})


@pytest.fixture
def op():
    """Make a host operator's event; times in us."""

    def make(name="aten::mm", ts=0, dur=10, *, pid=1, tid=1, cat="cpu_op", **args):
        return _event(name, ts, dur, pid, tid, cat, args)

    return make


@pytest.fixture
def step(op):
    """Make the mark of a profiler's step; times in us."""
    return lambda number, ts, dur: op(f"ProfilerStep#{number}", ts, dur, cat="user_annotation")


@pytest.fixture
def launched():
    """Make a launching call and the kernel that it launched; times in us."""

    def make(
        correlation,
        call_ts,
        ts,
        dur,
        *,
        name="ampere_sgemm_128x64_nn",
        call="cudaLaunchKernel",
        cat="kernel",
        runtime="cuda_runtime",
        call_dur=1,
        device=0,
        stream=7,
        tid=1,
        **args,
    ):
        where = {"device": device, "stream": stream, "correlation": correlation}
        return [
            _event(call, call_ts, call_dur, 1, tid, runtime, {"correlation": correlation}),
            _event(name, ts, dur, device, stream, cat, where | args),
        ]

    return make


@pytest.fixture(name="make_session")
def make_session_fixture():
    """The function above."""
    return make_session


@pytest.fixture
def write_run(tmp_path):
    """Write records (of one or more sessions) as a rank's file; returns the run's log dir."""

    def write(records, *, rank=0, name="run"):
        return str(write_records(tmp_path / name, records, rank=rank))

    return write


@pytest.fixture
def write_ranks(write_run):
    """Write a session per rank, given as to `make_session`; returns the run's log dir."""

    def write(*ranks, **options):
        for rank, one in enumerate(ranks):
            start = {"rank": rank, "world_size": len(ranks)}
            run = write_run(make_session(**(start | options | one)), rank=rank)
        return run

    return write


@pytest.fixture
def analyze(write_run):
    """Analyse one session given as to `make_session`; other ranks' steps are the same.

    `trace` is the analysis of a trace of two steps, which a cycle of the session recorded.
    """

    def analyse(phases=None, *, trace=None, **options):
        for rank in range(1, options.get("world_size", 1)):
            other = {**options, "records": (), "rank": rank}
            write_run(make_session(phases, **other), rank=rank)
        traces = {}
        if trace is not None:
            options["records"] = [*options.get("records", ()), CYCLE]
            traces["t.gz"] = made_analysis(**{"steps": [{}, {}], **trace})
        run = write_run(make_session(phases, **options))
        return analyze_run(read_run(run), traces)

    return analyse


@pytest.fixture(scope="session")
def made_runs() -> ModuleType:
    """`tests/made_runs.py`: writes run folders as the callback would leave them."""
    return importlib.import_module("made_runs")


@pytest.fixture(scope="session")
def seeded_syncs() -> ModuleType:
    """`tests/seeded_syncs.py`: a training loop with ten known host syncs, and a clean one."""
    return importlib.import_module("seeded_syncs")


@pytest.fixture(scope="session")
def fake_device() -> type:
    """`tests/fake_device.py`: a device that exists only as arithmetic."""
    return FakeDevice


@pytest.fixture
def allocator_snapshot() -> SnapshotBuilder:
    """An allocator snapshot under construction."""
    return SnapshotBuilder()
