import json

import numpy as np
import pytest
from made_runs import gpu_run
from read_documents import rows, table, texts

from lightning_gpuprof.cli import main
from lightning_gpuprof.records.facts import CoreWait
from lightning_gpuprof.records.schema import Loader, OutsideSpan, Scalars, StepFlag
from lightning_gpuprof.report.comparison import compare_runs
from lightning_gpuprof.report.document import Interval, Quantity, decode

MS = 1_000_000


@pytest.fixture
def two_runs(make_session, write_run):
    """Write a base run and one whose forward takes `factor` times as long."""

    def write(factor, losses=(1.0, 0.5), **options):
        forward = 10 * MS + np.arange(100) % 7 * 100_000
        base = make_session(
            {"forward": forward, "data_wait": 2 * MS},
            records=[Scalars(steps=[0, 1], values={"loss": [1.0, 0.5]})],
            loader=Loader(num_workers=0),
        )
        new = make_session(
            {"forward": (forward * factor).astype(int)},
            records=[Scalars(steps=[0, 1], values={"loss": list(losses)})],
            loader=Loader(num_workers=1),
            **options,
        )
        return write_run(base, name="base"), write_run(new, name="new")

    return write


def test_the_answer_is_one_sentence_with_its_interval(two_runs, capsys):
    base, new = two_runs(0.8)
    assert main(["compare", base, new]) == 0
    out = capsys.readouterr().out
    assert "The new run is faster: 33% less time per step (" in out
    assert "), 1.49 times as fast\n" in out
    gone = out.partition("FINDINGS\n  Gone, or nearly\n")[2].splitlines()[1]
    assert gone.split()[:2] == ["warning", "data-wait"]
    differs = out.partition("WHAT DIFFERS")[2].splitlines()[2]
    assert differs.split() == ["num_workers", "0", "1"]
    assert "  loss    yes               2                   0         0.5        0.5\n" in out


@pytest.mark.parametrize("records", [[], [Scalars(steps=[0], values={"loss": [None]})]])
def test_without_losses_in_both_runs_it_is_unknown_what_they_compute(
    make_session, write_run, capsys, records
):
    session = make_session({"forward": MS}, records=records)
    assert main(["compare", *(write_run(session, name=name) for name in "ab")]) == 0
    sentence = "No step has a recorded loss in both runs: whether they compute the same is unknown."
    assert sentence in capsys.readouterr().out


def test_of_two_findings_of_one_kind_the_one_that_went_is_told(make_session, write_run, capsys):
    steps = np.arange(100) % 10
    flags = (steps == 0) * StepFlag.EPOCH_START + (steps == 9) * StepFlag.VALIDATION
    loader = Loader(num_workers=1, length=8)
    runs = []
    for name, waits in {"base": np.where(steps == 0, 90 * MS, MS // 10), "new": MS // 10}.items():
        phases = {"forward": 10 * MS, "data_wait": waits, "validation": (steps == 9) * 60 * MS}
        parts = {"validation/loader start": (steps == 9) * 40 * MS}
        session = make_session(
            phases, parts=parts, flags=flags, loader=loader, validation_loader=loader
        )
        runs.append(write_run(session, name=name))

    main(["compare", *runs, "--json"])
    document = decode(capsys.readouterr().out)
    gone = rows(document, "findings_gone", "id")
    assert list(gone) == ["worker-startup"]
    assert gone["worker-startup"]["title"].startswith("Each epoch waits")
    assert rows(document, "findings_new", "id") == {}


def test_the_exit_status_is_for_ci(two_runs):
    base, new = two_runs(1.5)
    assert main(["compare", base, new]) == 0
    assert main(["compare", base, new, "--fail-if-slower", "5%"]) == 1
    assert main(["compare", base, new, "--fail-if-slower", "0.5"]) == 0
    assert main(["compare", new, base, "--fail-if-slower", "5%"]) == 0


def test_a_run_compared_with_itself_is_called_so(two_runs, capsys):
    base, _ = two_runs(1.5)
    main(["compare", base, base])
    assert "note: Both are the same run." in capsys.readouterr().out


def test_too_few_steps_cannot_pass(make_session, write_run, capsys):
    run = write_run(make_session({"forward": MS}, steps=4))
    assert main(["compare", run, run, "--fail-if-slower", "5%"]) == 2
    assert "Too few steps to compare: 4 and 4" in capsys.readouterr().out


@pytest.mark.parametrize(("losses", "is_said"), [([2.0, 0.5], True), ([1.0, 0.9], False)])
def test_values_that_differ_from_the_first_step_on_need_a_seed(two_runs, capsys, losses, is_said):
    main(["compare", *two_runs(1.0, losses=losses)])
    assert ("call seed_everything(1) in both" in capsys.readouterr().out) is is_said


def test_losses_that_differ_can_fail_it(two_runs, capsys):
    base, new = two_runs(0.8, losses=(1.0, 0.6))
    assert main(["compare", base, new, "--fail-if-values-differ"]) == 1
    (value,) = capsys.readouterr().out.partition("DO THEY COMPUTE")[2].splitlines()[4:]
    assert value.split() == ["loss", "no", "2", "0.1", "1", "0.5", "0.6"]
    assert main(["compare", base, new, "--fail-if-values-differ", "--tolerance", "50%"]) == 0


@pytest.mark.parametrize(("queued_ns", "warned"), [(300, True), (3, False)])
def test_a_run_that_waited_for_cores_is_warned_of(
    make_session, write_run, capsys, queued_ns, warned
):
    noted = [CoreWait(1_000, queued_ns)]
    base = write_run(make_session({"forward": MS}), name="base")
    new = write_run(make_session({"forward": MS}, records=noted), name="new")
    main(["compare", base, new])
    warning = "note: The new run waited 30% of its time for a free core."
    assert (warning in capsys.readouterr().out) is warned


def test_another_model_is_no_faster_run(make_session, write_run, capsys):
    forward = 10 * MS + np.arange(100) % 7 * 100_000
    models = {"class": "Net", "parameters": 64_000}, {"class": "Gan", "parameters": 640}
    base, new = (
        write_run(make_session({"forward": forward // (i + 1)}, model=model), name=str(i))
        for i, model in enumerate(models)
    )
    main(["compare", base, new])
    out = capsys.readouterr().out
    sentence = (
        "Another model (class Net -> Gan, parameters 64,000 -> 640): 50% less time per step ("
    )
    assert sentence in " ".join(out.split())
    assert "faster" not in out
    assert (
        "note: The models differ: unless your change made them differ, the times say nothing"
        in (out)
    )
    main(["compare", base, new, "--json"])
    document = decode(capsys.readouterr().out)
    assert document.verdict.kind == "other_model"
    assert (document.figure("verdict"), document.figure("same_model")) == ("faster", False)
    assert document.verdict.title.startswith(sentence)


def test_json_is_the_document_alone(two_runs, capsys):
    base, new = two_runs(0.8, losses=(1.0, float("nan")))
    main(["compare", base, new, "--json"])
    document = decode(capsys.readouterr().out)
    assert document.schema_version == 2
    assert document.verdict.kind == "faster"
    interval = document.figure("step_change_interval_frac")
    assert isinstance(interval, Interval)
    assert interval.low <= document.figure("step_change_frac") <= interval.high
    loss = rows(document, "values", "name")["loss"]
    assert (loss["same"], loss["max_diff"]) == (False, "not finite")
    assert (loss["last_base"], loss["last_new"]) == (0.5, "not finite")
    assert list(rows(document, "findings_gone", "id")) == ["data-wait"]


@pytest.mark.parametrize("share", ["five", "5", "-3%", "nan"])
def test_a_share_that_is_none_is_refused(two_runs, share, capsys):
    with pytest.raises(SystemExit):
        main(["compare", *two_runs(1.0), f"--fail-if-slower={share}"])
    assert "is not a share: pass 5% or 0.05" in capsys.readouterr().err


def test_of_a_run_without_steps_no_finding_is_gone(make_session, write_run, capsys):
    waits = {"data_wait": 6 * MS, "forward": 4 * MS}
    runs = [write_run(make_session(waits, steps=steps), name=f"r{steps}") for steps in (100, 0)]
    for base, new in (runs, runs[::-1]):
        main(["compare", base, new])
        out = capsys.readouterr().out
        assert "Too few steps to compare" in out
        assert "FINDINGS" not in out


def test_a_fit_whose_epochs_start_slowly_fails_however_fast_its_steps_are(
    make_session, write_run, capsys
):
    flags = (np.arange(200) % 50 == 0) * int(StepFlag.EPOCH_START)
    runs = []
    for name, started_ms in {"slow": 6_000, "fast": 10}.items():
        start = OutsideSpan(
            "epoch_start", 0, started_ms * MS, phase_ns={"data_wait": started_ms * MS}
        )
        step = {"forward": 10 * MS + np.arange(200) % 7 * 100_000}
        session = make_session(
            step,
            steps=200,
            flags=flags,
            records=[start] * 3,
            wall_ns=2_000 * MS + 4 * started_ms * MS,
        )
        runs.append(write_run(session, name=name))
    slow, fast = runs
    assert main(["compare", slow, fast, "--fail-if-slower", "5%"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "The new run is faster: 90% less time per step of the whole fit (" in out
    assert "; steps alone: no difference that" in out
    assert "BETWEEN EPOCHS (mean per step)" in out
    assert main(["compare", fast, slow, "--fail-if-slower", "5%"]) == 1


def test_the_table_of_before_and_after_says_which_way_each_figure_should_go(tmp_path, capsys):
    runs = [gpu_run(tmp_path / name) for name in ("base", "new")]
    path = next(runs[1].rglob("*.analysis.json"))
    document = json.loads(path.read_text())
    for row in document["kernels"]:
        row["count"] //= 2
    figures = {"gemm_frac": 0.75, "sync_ns": 0, "sync_frac": 0.0, "idle": []}
    path.write_text(json.dumps(document | figures))
    base = next(runs[0].rglob("*.analysis.json"))
    idle = [{"cause": "kernel_gap", "total_ns": 3 * MS, "count": 30}]
    figures = {"gemm_frac": 0.5, "sync_ns": 6 * MS, "sync_frac": 0.5, "idle": idle}
    base.write_text(json.dumps(json.loads(base.read_text()) | figures))

    assert main(["compare", "--json", *map(str, runs)]) == 0
    figures = rows(decode(capsys.readouterr().out), "before_after", "id")
    named = "step_ns kernels_per_step_count gemm_ns gemm_frac sync_frac"
    named += " launch_gaps_frac launch_overhead_frac"
    assert list(figures) == [*named.split(), "peak_allocated_bytes"]
    keys = ("base", "new", "goal", "met")
    kernels, gemm, gaps = (
        [figures[name][key] for key in keys]
        for name in ("kernels_per_step_count", "gemm_frac", "launch_gaps_frac")
    )
    assert kernels == [Quantity(132, "count"), Quantity(66, "count"), "lower", "yes"]
    assert gemm == [Quantity(0.5, "frac"), Quantity(0.75, "frac"), None, None]
    assert gaps[1:] == [Quantity(0, "frac"), "lower", "yes"]
    assert figures["peak_allocated_bytes"]["met"] == "yes"

    assert main(["compare", *map(str, runs)]) == 0
    out = capsys.readouterr().out
    assert "BEFORE AND AFTER" in out
    assert "Kernels per step" in out


@pytest.mark.parametrize(("loss", "same"), [(0.5, True), (0.7, False)])
def test_what_was_not_measured_has_no_row_and_values_are_to_agree(two_runs, capsys, loss, same):
    base, new = two_runs(1.5, losses=(1.0, loss))
    main(["compare", base, new, "--json"])
    figures = rows(decode(capsys.readouterr().out), "before_after", "id")
    assert list(figures) == ["step_ns", "loss"]
    assert figures["step_ns"]["met"] == "no"
    value = dict(figures["loss"])
    assert value.pop("diff_frac") == pytest.approx((loss - 0.5) / 0.5)
    assert value == {
        "id": "loss",
        "label": "loss",
        "goal": "same",
        "base": Quantity(0.5, "number"),
        "new": Quantity(loss, "number"),
        "met": "yes" if same else "no",
    }


def test_a_table_of_phases_begins_with_those_that_changed(make_session, write_run):
    base = {"forward": 10 * MS, "backward": 20 * MS, "data_wait": 5 * MS}
    runs = [
        write_run(make_session(base | {"forward": forward}), name=str(forward))
        for forward in (10 * MS, 16 * MS)
    ]
    document = compare_runs(*runs).document()
    phases = table(document, "phases")
    assert [(row["label"], row["diff"]) for row in phases.rows] == [
        ("Forward", 6 * MS),
        ("Data wait", 0),
        ("Backward", 0),
    ]
    assert phases.first_rows == 1
    assert texts(document, "warnings") == []


def test_a_difference_that_chance_explains_is_not_shown_to_meet_its_goal(two_runs, capsys):
    base, _ = two_runs(1.0)
    main(["compare", base, base, "--json"])
    figures = rows(decode(capsys.readouterr().out), "before_after", "id")
    assert figures["step_ns"]["met"] == "not shown"


@pytest.mark.parametrize(
    ("factor", "outcome"), [(1.02, "held"), (0.8, "saved more"), (1.3, "saved less")]
)
def test_what_was_predicted_stands_beside_what_was_measured(two_runs, capsys, factor, outcome):
    """Data wait of 2 ms is gone in each; forward changes as well."""
    base, new = two_runs(factor)
    main(["compare", base, new, "--json"])
    row = rows(decode(capsys.readouterr().out), "predictions", "name")["data-wait"]
    assert 0 < row["predicted"].low <= row["predicted"].high <= 2 * MS
    measured = 2 * MS - (factor - 1) * 10.3 * MS
    assert row["measured"].low <= measured + 20_000
    assert row["measured"].high >= measured - 20_000
    assert row["outcome"] == outcome, row


def test_a_prediction_that_did_not_hold_comes_with_what_else_differs(
    make_session, write_run, capsys
):
    busy = CoreWait(wall_ns=100, queued_ns=40)
    base = make_session({"forward": 10 * MS, "data_wait": 2 * MS}, loader=Loader(num_workers=0))
    new = make_session({"forward": 5 * MS}, records=[busy], loader=Loader(num_workers=0))
    main(["compare", *(write_run(run, name=name) for name, run in {"a": base, "b": new}.items())])
    out = " ".join(capsys.readouterr().out.split())
    assert "But the new run waited 40% of its time for a free core" in out
    assert "training waited 0% of its time for a core before the change and 40% after it" in out


@pytest.mark.parametrize(("factor", "more"), [(1.1, "1.03 ms more"), (0.8, "2.06 ms less")])
def test_phases_that_no_gone_finding_is_about_stand_apart(two_runs, capsys, factor, more):
    main(["compare", *two_runs(factor)])
    out = " ".join(capsys.readouterr().out.split())
    assert f"Not predicted, and part of what was measured: forward {more} per step." in out


def test_runs_of_different_models_check_no_prediction(make_session, write_run, capsys):
    sizes = {"a": {"parameters": 10}, "b": {"parameters": 20}}
    phases = {"a": {"forward": 10 * MS, "data_wait": 2 * MS}, "b": {"forward": 10 * MS}}
    runs = [
        write_run(make_session(phases[name], model=sizes[name], loader=Loader()), name=name)
        for name in sizes
    ]
    main(["compare", *runs, "--json"])
    assert decode(capsys.readouterr().out).section("predictions") is None
