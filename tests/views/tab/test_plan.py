import json

import pytest

from lightning_gpuprof.cli.plan import payload as plan_payload
from lightning_gpuprof.cli.tune import payload as tune_payload
from lightning_gpuprof.trials.cards import Card, CardPlan, Plan
from lightning_gpuprof.trials.messages import PlanPoint, TunePoint
from lightning_gpuprof.trials.tune import judge
from lightning_gpuprof.views.tab.loaded_run import LoadedRun
from lightning_gpuprof.views.tab.plan import plan_view
from lightning_gpuprof.views.tab.query import Query

GIB = 2**30


@pytest.fixture
def run(made_runs, tmp_path):
    """A run two folders below the root of the log dir."""
    folder = made_runs.bare_run(tmp_path / "model" / "version_0")
    return LoadedRun(str(folder), root=str(tmp_path))


def point(batch_size):
    exact = {"parameters": GIB, "activations": batch_size * GIB}
    peak = (1 + batch_size) * GIB
    return PlanPoint(
        batch_size=batch_size,
        peak_allocated_bytes=peak,
        peak_reserved_bytes=peak,
        least_capacity_bytes=peak,
        peak_phase="backward",
        kind_bytes=exact,
        exact_bytes=exact,
        optimizer="AdamW",
    )


@pytest.fixture
def planned():
    """What `plan --json` prints."""
    card = CardPlan(Card(24 * GIB, "a card"), 16, point(16), 20)
    plan = Plan(
        points=(point(8), point(16)),
        allocated=None,
        cards=(card, CardPlan(Card(GIB), None, None, None)),
        precision="32-true",
        target_frac=(0.6, 0.8),
        outside_bytes=0,
    )
    return plan_payload(plan)


def test_a_run_without_a_plan_has_none(run):
    found = plan_view(run, Query({}))
    assert (found["plan"], found["tune"], found["notes"]) == (None, None, [])


def test_what_the_plan_command_prints_is_shown(run, tmp_path, planned):
    (tmp_path / "plan.json").write_text(json.dumps(planned))
    found = plan_view(run, Query({}))
    assert found["plan_file"] == str(tmp_path / "plan.json")
    first, second = found["plan"]["cards"]
    assert (first["card"], first["batch_size"]) == ("a card", 16)
    assert (second["batch_size"], second["peak_reserved_bytes"]) == (None, None)


def test_what_the_tune_command_prints_is_shown(run, tmp_path):
    points = [TunePoint(batch_size=n, device="cpu", step_ns=1_000_000 * (10 + n)) for n in (8, 16)]
    printed = tune_payload(judge(points, band=(0.6, 0.8)))
    (tmp_path / "tune.json").write_text(json.dumps(printed))
    tuned = plan_view(run, Query({}))["tune"]
    assert [point["batch_size"] for point in tuned["points"]] == [8, 16]
    assert tuned["points"][0]["samples_per_s"] == pytest.approx(8 / 0.018)
    assert tuned["points"][0]["peak_reserved_bytes"] is None


def test_the_plan_nearest_to_the_run_counts(run, tmp_path, planned):
    (tmp_path / "plan.json").write_text(json.dumps({**planned, "precision": "far"}))
    (tmp_path / "model" / "plan.json").write_text(json.dumps({**planned, "precision": "near"}))
    assert plan_view(run, Query({}))["plan"]["precision"] == "near"


def test_nothing_above_the_root_is_read(made_runs, tmp_path, planned):
    (tmp_path / "plan.json").write_text(json.dumps(planned))
    folder = made_runs.bare_run(tmp_path / "logs" / "version_0")
    for root in (str(tmp_path / "logs"), str(folder), ""):
        assert plan_view(LoadedRun(str(folder), root=root), Query({}))["plan"] is None


@pytest.mark.parametrize("content", ["", "[1]", '{"points": 3}', '{"cards": [], "points": [{}]}'])
def test_a_file_of_that_name_that_is_something_else_is_told(run, tmp_path, content):
    (tmp_path / "plan.json").write_text(content)
    found = plan_view(run, Query({}))
    assert found["plan"] is None
    assert "is not the JSON of `plan --json`" in found["notes"][0]
