"""The sections on slow-downs, on captures and on what differs before and during a slow-down."""

import pytest
from made_records import MS
from made_runs import slowing_run
from read_documents import rows, table

from lightning_gpuprof.analysis.run.slow_downs import costliest, spans_around
from lightning_gpuprof.records.facts import Capture, CaptureReason, SlowDown, SlowDownShape
from lightning_gpuprof.records.span import StepSpan
from lightning_gpuprof.report.build_run import build_run
from lightning_gpuprof.report.console import render
from lightning_gpuprof.report.document import Document
from lightning_gpuprof.report.load import load_report


def slow_down(since, **changes):
    values = {"shape": SlowDownShape.STEP, "noticed_step": since + 50, "before_ns": 10 * MS}
    return SlowDown(since_step=since, **{**values, "during_ns": 12 * MS, **changes})


@pytest.fixture(scope="module")
def document(tmp_path_factory) -> Document:
    run = slowing_run(tmp_path_factory.mktemp("runs") / "slowing")
    return build_run(load_report(str(run)))


@pytest.fixture
def document_of(make_session, write_run):
    """Write a run of 200 steps with records, and return its document."""

    def build(*records, **options):
        phases = {"forward": 10 * MS, **(options.pop("phases", {}))}
        session = make_session(phases, steps=200, records=records, **options)
        return build_run(load_report(write_run(session)))

    return build


def test_a_slow_down_is_said_with_its_first_step_its_phase_and_its_time(document):
    (row,) = document.rows("slow_downs")
    assert (row["since_step"], row["until_step"], row["phase"].phase) == (800, None, "callbacks")
    assert (row["before_ns"], row["during_ns"], row["diff_ns"]) == (13.5 * MS, 19.5 * MS, 6 * MS)
    assert row["shape"] == "all steps"
    assert document.section("slow_downs").detail == "page"


def test_a_capture_leads_to_its_own_trace_or_says_why_there_is_none(document):
    captured, asked = document.rows("captures")
    assert (captured["why"], captured["first_step"], captured["samples"]) == (
        "a slow-down",
        860,
        300,
    )
    assert captured["view"] == "timeline"
    assert captured["trace"] == captured["file"] == "rank0-cycle1.pt.trace.json.gz"
    assert (asked["why"], asked["problem"]) == ("a request", "The disk is full.")
    assert "trace" not in asked


def test_before_and_during_stand_side_by_side_in_a_verbose_section(document):
    section = document.section("before_during")
    assert section.detail == "verbose"
    assert section.note == "steps 0 to 799 against steps from 800, means per step"
    phases = rows(document, "before_during_phases", "label")
    assert [phases[name]["diff_ns"] for name in ("Callbacks", "Tracker")] == [6 * MS, 6 * MS]
    assert "Forward" not in phases
    (line,) = document.rows("before_during_lines")
    assert (line["place"].line, line["before_ns"]) == (31, None)
    assert line["during_ns"] == pytest.approx(7 * MS * 100 / 105, rel=1e-6)
    assert rows(document, "before_during_operators", "name").keys() >= {"aten::add", "aten::sort"}
    others = rows(document, "before_during_circumstances", "id")
    sizes, resident = (others[id] for id in ("samples_per_batch_count", "process_memory_bytes"))
    assert (sizes["before"].value, sizes["during"].value) == (32, 33)
    assert (resident["before"].value, resident["during"].value) == (2**30, 2**31)


def test_the_console_has_them_side_by_side_only_when_asked_for_more(document):
    assert "SLOW-DOWNS" in render(document)
    assert "BEFORE AND DURING" not in render(document)
    assert "BEFORE AND DURING THE SLOW-DOWN" in render(document, verbose=True)


def test_the_command_that_compares_the_same_spans_is_given(document):
    command = document.section("before_during").body[-1].lines[0]
    assert command.startswith("lightning-gpuprof compare ")
    assert command.endswith("slowing@800-")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, None),
        ({"shape": SlowDownShape.RAMP, "per_100_steps_ns": 4_000}, "4.00 µs more every 100 steps"),
        (
            {"shape": SlowDownShape.SPIKES, "every_steps": 500, "height_ns": 180 * MS},
            "every 500 steps, 180 ms",
        ),
    ],
)
def test_the_pattern_says_how_a_slow_down_goes_on(document_of, changes, words):
    (row,) = document_of(slow_down(120, phase=None, **changes)).rows("slow_downs")
    assert row["pattern"] == words
    assert row["phase"] is None


def test_a_record_is_replaced_by_a_later_one_of_the_same_step(document_of):
    records = slow_down(150), slow_down(50), slow_down(50, until_step=99)
    said = document_of(*records).rows("slow_downs")
    assert [(row["since_step"], row["until_step"]) for row in said] == [(50, 99), (150, None)]


def test_what_was_captured_counts_as_it_was_recorded_last(document_of):
    begun = Capture(number=0, why=CaptureReason.REQUEST, step=60)
    done = Capture(number=0, why=CaptureReason.REQUEST, step=60, samples=9)
    (row,) = document_of(begun, done).rows("captures")
    assert row["samples"] == 9


def test_a_run_that_kept_its_pace_has_none_of_these_sections(document_of):
    document = document_of()
    names = ("slow_downs", "captures", "before_during")
    assert [document.section(name) for name in names] == [None, None, None]


def test_a_slow_down_from_the_first_step_on_has_nothing_to_be_compared_with(document_of):
    document = document_of(slow_down(0))
    assert document.section("before_during") is None
    assert len(table(document, "slow_downs").rows) == 1


def test_steps_of_an_earlier_slow_down_do_not_count_as_before():
    first, second = slow_down(50, until_step=99), slow_down(200, until_step=250)
    assert spans_around(first, (first, second)) == (StepSpan(0, 49), StepSpan(50, 99))
    assert spans_around(second, (first, second)) == (StepSpan(100, 199), StepSpan(200, 250))


@pytest.mark.parametrize("until", [None, 99])
def test_a_slow_down_on_top_of_another_is_compared_with_that(until):
    first, second = slow_down(50, until_step=until), slow_down(100)
    assert spans_around(second, (first, second)) == (StepSpan(50, 99), StepSpan(100))


def test_the_slow_down_with_most_time_in_all_its_steps_is_looked_at():
    short = slow_down(50, until_step=59, during_ns=40 * MS)
    lasting = slow_down(100, during_ns=11 * MS)
    assert costliest((short, lasting), last_step=150) is short
    assert costliest((short, lasting), last_step=500) is lasting
    assert costliest((), last_step=500) is None


def test_no_relative_change_is_shown_of_what_took_next_to_nothing_before(document_of):
    callbacks = [300 if step < 100 else 5 * MS for step in range(200)]
    late = {"phases": {"callbacks": callbacks}, "parts": {"callbacks/Late": callbacks}}
    document = document_of(slow_down(100), **late)
    (row,) = [row for row in document.rows("before_during_phases") if row["label"] == "Late"]
    assert (row["before_ns"], row["during_ns"], row["diff_frac"]) == (300, 5 * MS, None)
