"""Contradictions that were seen in documents, each as the kind that it is of."""

import pytest
from analyzed import made_analysis
from recorded import lay_out

from lightning_gpuprof.report.build_run import build_run
from lightning_gpuprof.report.build_trace import trace_document
from lightning_gpuprof.report.charts.memory_sites import write_sites
from lightning_gpuprof.report.console import render
from lightning_gpuprof.report.load import load_report

MS = 1_000_000


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Return the document of a recorded run by its name."""
    folder = lay_out(tmp_path_factory.mktemp("logs") / "h100")
    write_sites(str(next((folder / "out-of-memory").rglob("*-oom.memory.pickle"))))
    return lambda name: build_run(load_report(str(folder / name)))


def test_a_trace_without_steps_is_a_whole_and_has_nothing_per_step():
    gpu = {"span_ns": 100 * MS, "busy_ns": 60 * MS, "idle_ns": 40 * MS, "compute_ns": 60 * MS}
    document = trace_document(
        made_analysis(steps=[], gpu={**gpu, "device": 0}, sync_ns=30 * MS, sync_frac=0.3)
    )
    figures = {
        figure.key: figure
        for part in document.section("trace_figures").body
        for figure in part.figures
    }
    assert figures["sync_frac"].note.startswith("of the whole trace,")
    assert "per step" not in render(document, verbose=True)


def test_a_run_out_of_memory_names_its_snapshot_and_the_lines_that_held_most(recorded):
    document = recorded("out-of-memory")
    assert document.figure("oom_snapshot").endswith("rank0-step5-oom.memory.pickle")
    assert len(document.rows("oom_sites")) > 0
    assert "oom.memory.pickle" in render(document)


def test_short_kernels_have_a_question_beside_that_for_short_calls(recorded):
    rows = {row["id"]: row for row in recorded("small-batch").rows("checklist")}
    assert rows["short-kernels"]["state"] == "look"
    assert rows["short-kernels"]["value"].value > 0.99
    assert "small-kernels" in rows["short-kernels"]["finding"]


def test_steps_that_are_slow_without_a_pattern_are_no_change_to_plan(recorded):
    document = recorded("pageable-copies")
    assert "step-time-jitter" in [card.id for card in document.findings]
    assert "step-time-jitter" not in [row["finding"] for row in document.rows("plan")]


def test_a_sync_bound_run_has_a_finding_by_its_marks_alone(recorded):
    first = recorded("sync-bound").findings[0]
    assert first.id == "host-sync"
    assert first.title.startswith("The host stops to wait for the device in ")
