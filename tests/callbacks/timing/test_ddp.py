import json
import subprocess
import sys
from pathlib import Path

import pytest

from lightning_gpuprof.analysis.run.run import analyze_run
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import OutsideSpan

SCRIPT = Path(__file__).with_name("ddp_script.py")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Two runs of two processes in one folder: with the callback and without."""
    root = tmp_path_factory.mktemp("ddp")
    command = [sys.executable, str(SCRIPT), str(root)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert run.returncode == 0, run.stdout + run.stderr
    return root


def facts(root, mode, rank):
    return json.loads((root / f"{mode}-rank{rank}.json").read_text())


def test_each_rank_writes_its_own_file_in_one_folder(root):
    (folder,) = (path.parent for path in root.rglob("rank0.jsonl"))
    ranks = read_run(str(folder.parent.parent))

    assert sorted(ranks) == [0, 1]
    for rank, records in ranks.items():
        (session,) = records.sessions
        assert (session.start.rank, session.start.world_size) == (rank, 2)
        assert session.steps == 8
        outside = sum(span.dur_ns for span in session.all(OutsideSpan))
        assert int(session.columns["dur_ns"].sum()) + outside == session.end.wall_ns


@pytest.mark.parametrize("rank", [0, 1])
def test_waiting_for_the_gradients_of_others_is_a_part_of_backward(root, rank):
    (folder,) = (path.parent for path in root.rglob("rank0.jsonl"))
    columns = read_run(str(folder))[rank].sessions[0].columns
    exchange = columns["part/backward/gradient exchange"]

    assert (exchange > 0).all()
    assert (exchange < columns["phase/backward"]).all()


def test_the_report_compares_what_ranks_waited(root):
    (folder,) = (path.parent for path in root.rglob("rank0.jsonl"))
    waits = analyze_run(read_run(str(folder)), {}).rank_waits

    assert waits.exchange_ns > 0
    assert sorted(waits.waited_ns) == [0, 1]
    assert sum(waits.last_frac.values()) == 1


@pytest.mark.parametrize("rank", [0, 1])
def test_no_collective_is_added_to_training(root, rank):
    assert facts(root, "profiled", rank)["counts"] == facts(root, "bare", rank)["counts"]


def test_weights_are_the_same_as_without(root):
    assert facts(root, "profiled", 0)["weight"] == facts(root, "bare", 0)["weight"]
