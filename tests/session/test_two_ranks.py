"""Two ranks of which one fails end as they would without the callback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from browser_driver import free_port

from lightning_gpuprof.records.files import find_runs, record_files
from lightning_gpuprof.views.documents.report import load_report

SCRIPT = Path(__file__).with_name("two_ranks.py")


def started(folder, fault, callback):
    """Start both ranks."""
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "LOCAL_RANK": "0"}
    command = [sys.executable, str(SCRIPT), str(folder), fault, callback]
    return [
        subprocess.Popen(
            command,
            env={**os.environ, **where, "NODE_RANK": str(rank)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for rank in (0, 1)
    ]


def ended(fault, ranks):
    """Return the exit status of both; who hangs for good is killed once the other has ended."""
    try:
        first = ranks[0].wait(timeout=90)
        if fault == "hangs":
            assert ranks[1].poll() is None
            ranks[1].kill()
        return first, ranks[1].wait(timeout=60)
    finally:
        for one in ranks:
            one.kill()


STATUSES = {
    "is killed": (1, -9),
    "raises": (1, 1),
    "hangs": (1, -9),
    "has fewer batches": (1, 1),
}


@pytest.mark.parametrize("fault", STATUSES)
def test_ranks_end_as_without_the_callback(tmp_path, fault):
    runs = [started(tmp_path / callback, fault, callback) for callback in ("with", "without")]
    assert [ended(fault, ranks) for ranks in runs] == [STATUSES[fault]] * 2


def test_a_machine_whose_records_are_not_here_is_named(tmp_path):
    assert ended("", started(tmp_path, "", "with")) == (0, 0)
    (run,) = find_runs(str(tmp_path))
    files = record_files(run)
    assert list(files) == [0, 1]
    os.unlink(files[1])
    notice = next(one for one in load_report(run).notices if "missing" in one)
    assert notice.startswith("Records of 1 of 2 ranks are here (missing: 1 on machine1).")
