"""Ranks that torchrun or Ray Train starts are one run, in which the late rank is named."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lightning_gpuprof.records.files import find_runs, record_files
from lightning_gpuprof.report.load import load_report

SCRIPT = Path(__file__).with_name("launched_ranks.py")
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")


def launched(folder, *command):
    """Train by a command; return the only run that it leaves."""
    # What it imports must be found in the workers that Ray starts, too.
    paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=240, env=environment
    )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    (run,) = find_runs(str(folder))
    return run


def check(run):
    """Check that both ranks are in the run, and that rank 1 is late in forward."""
    assert list(record_files(run)) == [0, 1]
    report = load_report(run)
    assert [view.steps for view in report.results.ranks.views] == [40, 40]
    assert not any("missing" in notice for notice in report.notices)
    finding = next(item for item in report.findings if item.id == "straggler-rank")
    assert (finding.places[0].rank, finding.places[0].phase) == (1, "forward")
    # The rank waits 30 ms in each step; the machine may add to that, and never takes from it.
    assert finding.evidence["late_ns"] >= 24_000_000


def test_torchrun(tmp_path):
    check(launched(tmp_path, *TORCHRUN, str(SCRIPT), str(tmp_path)))


@pytest.mark.skipif(
    importlib.util.find_spec("ray") is None,
    reason="Ray is not installed: pip install 'ray[train]'",
)
def test_ray_train(tmp_path):
    """Ray's workers have folders of their own: the run is where `default_root_dir` says.

    CI has no Ray. With Ray 2.60.0, torch 2.13.0 and Lightning 2.6.6 in a virtual environment with
    `pip install 'ray[train]'` it passed on a CPU: one run, both ranks, rank 1 late in forward.
    """
    check(launched(tmp_path, str(SCRIPT), str(tmp_path), "ray"))
