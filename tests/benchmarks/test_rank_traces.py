"""The benchmark of all ranks' traces knows what is right, and says what is wrong."""

from pathlib import Path

import pytest

from lightning_gpuprof.cli import main
from lightning_gpuprof.report.document import decode


@pytest.fixture
def rank_traces(fault_suite):
    """Import the benchmark for one test."""
    import rank_traces

    return rank_traces


@pytest.fixture
def document(rank_traces, tmp_path, capsys):
    """Write a job of four small traces; return what is said of it, and the job."""
    job = rank_traces.Job(ranks=4, kernels=3)
    for rank in range(4):
        rank_traces.write_rank(tmp_path / f"rank{rank}.pt.trace.json.gz", rank, job)
    assert main(["analyze", "--json", str(tmp_path)]) == 0
    return decode(capsys.readouterr().out), job


def test_what_is_said_of_the_generated_traces_is_right(rank_traces, document):
    said, job = document
    assert rank_traces.wrong(said, job) == []
    waits = {row["rank"]: row["waited_ns"] for row in said.rows("ranks")}
    assert waits == {rank: rank_traces.waits_ns(rank) for rank in range(4)}
    assert waits[rank_traces.LATE_RANK] == 0 < min(waits[rank] for rank in range(3))


def test_what_is_not_so_is_named(rank_traces, document, monkeypatch):
    said, job = document
    monkeypatch.setattr(rank_traces, "LATE_RANK", 2)
    mistakes = rank_traces.wrong(said, job)
    assert any(mistake.startswith("waits of rank 2: ") for mistake in mistakes)
    assert f"how often rank 3 is last: {rank_traces.STEPS}, not 0" in mistakes
    assert len(rank_traces.wrong(said, rank_traces.Job(ranks=5, kernels=3))) > 1


def test_the_memory_of_a_process_and_its_children_is_measured(rank_traces, tmp_path):
    job = rank_traces.Job(ranks=2, kernels=3)
    rank_traces.write_job(tmp_path / "job", job)
    said, taken = rank_traces.analyzed(Path(tmp_path, "job"))
    assert [row["rank"] for row in said.rows("ranks")] == [0, 1]
    assert taken["wall_s"] > 0
    assert 1 < taken["parent_mb"] < taken["together_mb"] < 2_000
    assert min(taken["children_mb"]) > 1
