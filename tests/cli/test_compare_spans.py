"""`compare RUN@0-99 RUN@100-`: two spans of a run's steps as the results of two runs."""

import numpy as np
import pytest
from made_records import MS, add_cycle, memory, operator
from read_documents import rows, texts

import lightning_gpuprof
from lightning_gpuprof.cli import main
from lightning_gpuprof.report.comparison import compare_runs

NO_DEVICE = {"compute": 0, "idle": 10, "exposed_comm": 0, "exposed_copy": 0}
"""The device's time in a step of a trace, which says how many steps the trace has."""


@pytest.fixture
def slowing(make_session, write_run, tmp_path):
    """Write a run whose callbacks take 4 ms from step 100 on, with a trace of either part."""
    folder = tmp_path / "run"
    operators = [operator("aten::mm", 3, 6.0, 6.0)], [operator("aten::sort", 3, 12.0, 12.0)]
    cycles = [
        add_cycle(folder, cycle=number, first_step=first, operators=traced, gpu_ms=NO_DEVICE)
        for number, (first, traced) in enumerate(zip((20, 120), operators, strict=True))
    ]
    work = 4 * MS * (np.arange(200) >= 100)
    session = make_session(
        {"forward": 10 * MS + np.arange(200) % 7 * 10_000, "callbacks": work},
        parts={"callbacks/Slow": work},
        steps=200,
        records=[*cycles, memory(2**30, step=50), memory(2**31, step=150)],
    )
    return write_run(session)


def test_two_spans_of_a_run_are_compared_as_two_runs(slowing):
    comparison = compare_runs(f"{slowing}@0-99", f"{slowing}@100-")
    assert comparison.sentence.startswith("slower: 40% more time per step")
    changed = comparison.most_changed_phase
    assert (changed.name, changed.base, changed.new) == ("callbacks", 0, 4 * MS)
    assert [finding.id for finding in comparison.appeared] == ["slow-callback"]
    document = comparison.document()
    assert document.subject.name == "run@100- against run@0-99"
    assert document.figure("base") == f"{slowing}@0-99"
    assert rows(document, "operators", "name").keys() == {"aten::mm", "aten::sort"}
    peak = rows(document, "memory", "id")["peak_allocated_bytes"]
    assert (peak["base"].value, peak["new"].value) == (2**30, 2**31)
    assert texts(document, "warnings") == []
    assert texts(document, "values") == [
        "These are steps of the same run, so there are no values to compare."
    ]


@pytest.mark.parametrize(
    ("spans", "warning"),
    [
        (("@0-120", "@100-"), "Both have steps 100 to 120 of the same run."),
        (("", "@100-"), "Both have steps from 100 of the same run."),
        (("@5-99", "@5-99"), "Both are the same steps."),
        (("", ""), "Both are the same run."),
    ],
)
def test_common_steps_are_pointed_out(slowing, spans, warning):
    first, second = (slowing + span for span in spans)
    assert warning in texts(compare_runs(first, second).document(), "warnings")


def test_the_command_compares_spans_and_a_gate_fails(slowing, capsys):
    arguments = [f"{slowing}@0-99", f"{slowing}@100-", "--fail-if-slower", "10%"]
    assert main(["compare", *arguments]) == 1
    assert "The new run is slower: 40% more time per step" in capsys.readouterr().out


def test_several_spans_are_compared_with_one(slowing, capsys):
    spans = [f"{slowing}@0-49", f"{slowing}@50-99", f"{slowing}@100-149"]
    assert main(["compare", *spans]) == 0
    out = capsys.readouterr().out
    assert "Of 2 runs 1 is slower than the base, 1 is not measurably different" in out


def test_a_report_of_a_span_is_that_of_its_steps(slowing):
    report = lightning_gpuprof.report(f"{slowing}@0-99")
    assert report.phases["forward"].frac == 1
    assert report.document.subject.name == "run@0-99"
    assert report.document.subject.line.startswith("fit, steps 0 to 99, 100 steps in 1.00 s")
    assert "slow-callback" not in [finding.id for finding in report.findings]


def test_a_rank_without_steps_of_the_span_is_missing_in_its_report(make_session, write_run):
    for rank, steps in enumerate((100, 40)):
        session = make_session({"forward": MS}, steps=steps, rank=rank, world_size=2)
        run = write_run(session, rank=rank)
    document = lightning_gpuprof.report(f"{run}@50-").document
    assert any("missing: 1" in line for line in texts(document, "notices"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["compare", "{run}@0-99", "{run}@500-"], "run: Session 0 has no steps from 500: "),
        (["compare", "{run}@99-0", "{run}"], "@99-0 ends before it begins"),
        (["compare", "{run}@early", "{run}"], "'early' is no span of steps"),
        (["compare", "{run}x@0-9", "{run}"], "runx does not exist"),
        (["report", "{run}@0-99", "--html", "page.html"], "show whole runs"),
        (["report", "{run}@0-99", "--view", "steps"], "show whole runs"),
    ],
)
def test_a_span_that_cannot_be_shown_is_an_error(slowing, capsys, arguments, words):
    assert main([argument.format(run=slowing) for argument in arguments]) == 2
    assert words in capsys.readouterr().err
