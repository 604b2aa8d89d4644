import json
import subprocess
import sys
from pathlib import Path

import pytest

from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import OutsideSpan, Scalars

SCRIPT = Path(__file__).with_name("ddp_script.py")
ALONE = ["rank 0 alone", "rank 1 alone"]
MODES = ["bare", "profiled", *ALONE, "averaged"]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Runs of two processes, one after the other."""
    root = tmp_path_factory.mktemp("ddp")
    command = [sys.executable, str(SCRIPT), str(root), *MODES]
    run = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert run.returncode == 0, run.stdout + run.stderr
    return root


def facts(root, mode, rank):
    return json.loads((root / f"{mode}-rank{rank}.json").read_text())


def recorded(root, mode="profiled"):
    """What both ranks of a run wrote."""
    (folder,) = {path.parent for path in (root / mode).rglob("rank*.jsonl")}
    return read_run(str(folder.parent.parent))


def test_each_rank_writes_its_own_file_in_one_folder(root):
    ranks = recorded(root)

    assert sorted(ranks) == [0, 1]
    for rank, records in ranks.items():
        (session,) = records.sessions
        assert (session.start.rank, session.start.world_size) == (rank, 2)
        assert session.steps == 20
        outside = sum(span.dur_ns for span in session.all(OutsideSpan))
        assert int(session.columns["dur_ns"].sum()) + outside == session.end.wall_ns


@pytest.mark.parametrize("rank", [0, 1])
def test_waiting_for_the_gradients_of_others_is_a_part_of_backward(root, rank):
    columns = recorded(root)[rank].sessions[0].columns
    exchange = columns["part/backward/gradient exchange"]

    assert (exchange > 0).all()
    assert (exchange < columns["phase/backward"]).all()


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("mode", ["profiled", *ALONE])
def test_no_collective_is_added(root, mode, rank):
    assert facts(root, mode, rank) == facts(root, "bare", rank)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_callback_on_one_rank_alone_records_that_rank(root, rank):
    assert list(recorded(root, ALONE[rank])) == [rank]


def losses(session):
    return [loss for record in session.all(Scalars) for loss in record.values["loss"]]


@pytest.mark.parametrize("rank", [0, 1])
def test_losses_are_averaged_over_ranks_with_one_collective_per_window(root, rank):
    own = [losses(recorded(root)[each].sessions[0]) for each in (0, 1)]
    means = losses(recorded(root, "averaged")[rank].sessions[0])

    assert means == pytest.approx([sum(pair) / 2 for pair in zip(*own, strict=True)], rel=1e-6)
    assert own[0] != own[1]
    made = [facts(root, mode, rank)["collectives"] for mode in ("averaged", "bare")]
    assert made[0] - made[1] == 7  # windows of 3 in 20 steps
