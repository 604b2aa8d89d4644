"""A run with the callback ends as it does without, whatever fails: the cases are in the files beside.

`make test` runs the fast ones, `make faults` all.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest
from faults import around_us, captured, machine, program  # noqa: F401 - they add their cases
from faults.rig import CASES, chosen, slug

from lightning_gpuprof.records.facts import Capture
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import ProbeDisabled

TESTS = Path(__file__).parents[1]
NAMES = chosen(os.environ.get("FAULTS") == "all")


class Outcome:
    """How one run ended: its exit code, negative for a signal, and what it said before."""

    def __init__(self, folder, code):
        self.folder, self.code = folder, code
        text = (folder / "result.json").read_text()
        self.found = json.loads(text) if text else {}

    @property
    def output(self):
        return (self.folder / "output.txt").read_text(errors="replace")[-3000:]

    def sessions(self):
        for path in self.folder.rglob("rank0.jsonl"):
            if path.is_file() and path.stat().st_size:
                yield from read_run(str(path.parents[2]))[0].sessions


@pytest.fixture(scope="session")
def outcomes():
    """Return a function that runs a case twice, without the callback and with it."""
    folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    root = Path(folder.name)  # short, as workers have sockets below it
    path = os.pathsep.join([str(TESTS), str(TESTS.parent), os.environ.get("PYTHONPATH", "")])
    runner = subprocess.Popen(
        [sys.executable, "-m", "faults.runner", root],
        env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    @cache
    def of(name):
        print(name, file=runner.stdin, flush=True)
        codes = json.loads(runner.stdout.readline())
        folders = (root / slug(name) / which for which in ("without", "with"))
        return [Outcome(*one) for one in zip(folders, codes, strict=True)]

    with folder, runner:
        yield of


def test_the_table_has_its_length():
    assert len(CASES) >= 80
    assert len(chosen(False)) >= len(CASES) / 4


@pytest.mark.parametrize("name", NAMES)
def test_a_run_ends_as_it_does_without_us_and_nothing_is_left(name, outcomes):
    plain, ours = outcomes(name)
    assert ours.code == plain.code, ours.output
    left, left_by_plain = (set(one.found.get("left", [])) for one in (ours, plain))
    assert not left - left_by_plain, ours.output
    for fact in () if CASES[name].loose else ("error", "seen", "files"):
        assert ours.found.get(fact) == plain.found.get(fact), f"{fact}\n{ours.output}"


@pytest.mark.parametrize("name", NAMES)
def test_a_fault_costs_only_the_part_that_needs_it_and_one_sentence(name, outcomes):
    case, ours = CASES[name], outcomes(name)[1]
    said = ours.found.get("said", [])
    if case.off is not None:
        assert len(said) == (1 if case.says else 0), said
        off = {one.probe for session in ours.sessions() for one in session.all(ProbeDisabled)}
        assert off == case.off
    if case.says:
        assert all(re.search(case.says, text) for text in said), said
    if case.records is not None:
        assert bool(sum(session.steps for session in ours.sessions())) == case.records


@pytest.mark.parametrize("name", ["a request for a capture", "a slow-down that is captured"])
def test_what_was_asked_for_was_recorded(name, outcomes):
    ours = outcomes(name)[1]
    captures = [record for session in ours.sessions() for record in session.all(Capture)]
    assert captures[-1].trace_file == "rank0-capture0.pt.trace.json.gz"
    assert (captures[-1].first_step, captures[-1].problem) == (9, "")
