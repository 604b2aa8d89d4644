"""Trials of what findings propose become pairs of the models' estimates and the step after."""

import pytest
from msgspec.structs import replace as with_fields

from lightning_gpuprof.findings.calibrated import estimate_of
from lightning_gpuprof.findings.engine import evaluate_rules
from lightning_gpuprof.records.schema import Loader
from lightning_gpuprof.records.trials import Side, Trial, Trials
from lightning_gpuprof.report.local_pairs import VARIABLE
from lightning_gpuprof.trials.measured_pairs import measured_pairs
from lightning_gpuprof.trials.try_changes import _with_pairs_appended

MS = 1_000_000
DATE = "2026-11-28"


@pytest.fixture
def run(analyze):
    return analyze(
        {"data_wait": 5 * MS, "forward": 4 * MS, "optimizer_step": MS},
        loader=Loader(num_workers=0, batch_size=8, length=200),
        torch_threads=1,
        cpu_count=2,
    )


@pytest.fixture
def wait(run):
    """The finding whose change is a number of workers."""
    [finding] = [found for found in evaluate_rules(run).findings if found.id == "data-wait"]
    assert finding.trial.change.startswith("num_workers=")
    return finding


@pytest.fixture
def trial(wait):
    change, _, value = wait.trial.change.partition("=")
    sides = {"before": Side(20 * MS), "after": Side(15 * MS)}
    return Trial(
        change=change, value=int(value), verdict="faster", gain_frac=0.25, pairs=6, **sides
    )


def test_a_pair_has_the_models_estimate_and_the_measured_share_of_the_recorded_step(
    run, wait, trial
):
    [pair] = measured_pairs(run, [trial], DATE)
    estimate = estimate_of(wait, run)
    assert (pair.kind, pair.source, pair.date, pair.device) == ("data-wait", "try", DATE, "cpu")
    expected = estimate.step_ns, estimate.least_ns, estimate.likely_ns, estimate.most_ns
    assert (pair.step_ns, pair.least_ns, pair.likely_ns, pair.most_ns) == expected
    assert pair.measured_ns == round(0.75 * estimate.step_ns)


@pytest.mark.parametrize(
    "other",
    [
        {"verdict": "undecided"},
        {"verdict": "failed", "gain_frac": None},
        {"ceiling": True},
        {"computed": True},
        {"value": 77},
        {"change": "prefetch_factor"},
    ],
)
def test_what_did_not_measure_the_change_of_a_finding_gives_no_pair(run, trial, other):
    assert list(measured_pairs(run, [trial], DATE))
    assert not list(measured_pairs(run, [with_fields(trial, **other)], DATE))


@pytest.mark.parametrize("verdict", ["same", "slower"])
def test_a_change_that_gained_nothing_is_a_pair_too(run, trial, verdict):
    [pair] = measured_pairs(run, [with_fields(trial, verdict=verdict, gain_frac=-0.1)], DATE)
    assert pair.measured_ns == round(1.1 * pair.step_ns)


@pytest.fixture
def trials(trial):
    return Trials(program="train.py", seconds=1.0, trials=(trial,))


def test_a_line_is_appended_for_each_and_a_note_says_so(run, trials, tmp_path, monkeypatch):
    file = tmp_path / "pairs.jsonl"
    monkeypatch.setenv(VARIABLE, str(file))
    assert _with_pairs_appended(trials, run).notes == (f"Lines appended to {file}: 1.",)
    _with_pairs_appended(trials, run)
    assert len(file.read_text().splitlines()) == 2
    none_measured = Trials(program="train.py", seconds=1.0)
    assert _with_pairs_appended(none_measured, run) == none_measured
    assert len(file.read_text().splitlines()) == 2


def test_without_the_variable_nothing_is_written(run, trials, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert _with_pairs_appended(trials, run) is trials
    assert sorted(tmp_path.rglob("*")) == before


def test_a_file_that_cannot_be_written_costs_no_result(run, trials, tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    [note] = _with_pairs_appended(trials, run).notes
    assert note.startswith(f"What was measured is not in {tmp_path}: ")
