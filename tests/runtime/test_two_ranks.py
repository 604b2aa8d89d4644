"""Two ranks of which one fails end as they would without the callback."""

import json
import os
from pathlib import Path

import pytest
from rank_processes import run_script

from lightning_gpuprof.records.files import find_runs, record_files
from lightning_gpuprof.report.load import load_report

SCRIPT = Path(__file__).with_name("two_ranks.py")
STATUSES = {
    "trains": [0, 0],
    "raises": [1, 1],
    "is killed": [1, -9],
    "hangs": [1, -9],
    "has fewer batches": [1, 0],
}
"""By what rank 1 does."""


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Runs with and without the callback; their exit statuses are in `ends.json`."""
    root = tmp_path_factory.mktemp("two_ranks")
    run_script(SCRIPT, root, *STATUSES, timeout_s=400)
    return root


@pytest.mark.parametrize("fault", STATUSES)
def test_ranks_end_as_without_the_callback(root, fault):
    ends = json.loads((root / "ends.json").read_text())[fault]
    assert ends == {"with": STATUSES[fault], "without": STATUSES[fault]}


def test_a_machine_whose_records_are_not_here_is_named(root):
    (run,) = find_runs(str(root / "trains"))
    files = record_files(run)
    assert list(files) == [0, 1]
    os.unlink(files[1])
    report = load_report(run)
    assert report.results.facts.probe_failures == ()
    notice = next(one for one in report.notices if "missing" in one)
    assert notice.startswith("Records of 1 of 2 ranks are here (missing: 1 on machine1).")
