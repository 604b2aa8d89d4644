import numpy as np
import pytest
from made_records import MS, memory

from lightning_gpuprof.errors import ConfigError, RecordError
from lightning_gpuprof.records.facts import AnomalyMode, BatchSizes, CoreWait, ProcessMemory
from lightning_gpuprof.records.lines import CapturedLines, HostLines, LineCount, WorkerLines
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import (
    NOT_MEASURED,
    UNTIMED_STEPS,
    DeviceSample,
    Memory,
    OutsideSpan,
    ProfilerCycle,
    RunEnd,
    Scalars,
)
from lightning_gpuprof.records.span import StepSpan, split_span, steps_in


@pytest.fixture
def session(make_session, write_run):
    """Write a session of 100 steps of 1 ms each and read it back."""

    def read(*records, **options):
        steps = make_session({"forward": MS}, records=records, **options)
        return read_run(write_run(steps))[0].sessions[-1]

    return read


class TestPath:
    @pytest.mark.parametrize(
        ("text", "span"),
        [
            ("0-4000", StepSpan(0, 4000)),
            ("4200-", StepSpan(4200)),
            ("-99", StepSpan(0, 99)),
            ("7-7", StepSpan(7, 7)),
        ],
    )
    def test_names_a_span_behind_the_run(self, text, span):
        assert split_span(f"logs/run@{text}") == ("logs/run", span)

    @pytest.mark.parametrize("path", ["logs/run", "a@b/run", "a@1-2/run", "user@host", "@0-5"])
    def test_without_a_span_is_the_path_of_a_run(self, path):
        assert split_span(path) == (path, None)

    def test_that_exists_is_a_run_whatever_it_is_called(self, tmp_path):
        (tmp_path / "lr@1-3").mkdir()
        assert split_span(str(tmp_path / "lr@1-3")) == (str(tmp_path / "lr@1-3"), None)

    @pytest.mark.parametrize("text", ["", "-", "4000", "a-b", "1-2-3", "0:9"])
    def test_with_anything_else_behind_a_run_is_an_error(self, tmp_path, text):
        with pytest.raises(ConfigError, match=r"is no span of steps\. Write RUN@0-4000"):
            split_span(f"{tmp_path}@{text}")

    def test_with_a_span_that_ends_before_it_begins_is_an_error(self):
        with pytest.raises(ConfigError, match="run@4200-10 ends before it begins"):
            split_span("run@4200-10")


class TestPart:
    def test_has_the_steps_of_the_span_with_times_from_its_beginning(self, session):
        part = steps_in(whole := session(), StepSpan(20, 29))
        assert part.columns["step"].tolist() == list(range(20, 30))
        assert part.columns["start_ns"].tolist() == [MS * step for step in range(10)]
        assert part.start.started_unix_ns == whole.start.started_unix_ns + 20 * MS
        assert (part.end.wall_ns, part.end.steps) == (10 * MS, 10)

    def test_and_the_rest_are_together_the_whole(self, session):
        spans = [
            OutsideSpan(where="setup", start_ns=0, dur_ns=5 * MS, phase_ns={}),
            OutsideSpan(where="epoch_end", start_ns=55 * MS, dur_ns=3 * MS, phase_ns={}),
            OutsideSpan(where="teardown", start_ns=108 * MS, dur_ns=2 * MS, phase_ns={}),
        ]
        steps = np.arange(100)
        start_ns = (5 + steps + 3 * (steps >= 50)) * MS
        whole = session(*spans, columns={"start_ns": start_ns}, wall_ns=110 * MS)
        parts = [steps_in(whole, StepSpan(0, 49)), steps_in(whole, StepSpan(50))]
        assert [part.steps for part in parts] == [50, 50]
        assert [part.end.wall_ns for part in parts] == [58 * MS, 52 * MS]
        assert [[span.where for span in part.all(OutsideSpan)] for part in parts] == [
            ["setup", "epoch_end"],
            ["teardown"],
        ]

    def test_that_has_all_steps_is_the_session_itself(self, session):
        whole = session(CoreWait(1, 1))
        assert steps_in(whole, StepSpan(0)) is whole
        assert steps_in(whole, StepSpan(0, 99)) is whole

    def test_has_the_records_of_its_steps(self, session):
        readings = [memory(10 * step, step=step) for step in (9, 49, 99)]
        resident = [ProcessMemory(step, 1) for step in (9, 49, 99)]
        cycles = [
            ProfilerCycle(cycle=n, first_step=first, last_step=first + 2, trace_file=f"{n}.gz")
            for n, first in enumerate((8, 39, 60))
        ]
        losses = Scalars(steps=[9, 10, 70], values={"loss": [3.0, 2.0, 1.0]})
        part = steps_in(session(*readings, *resident, *cycles, losses), StepSpan(10, 61))
        assert [record.step for record in part.all(Memory)] == [49]
        assert [record.step for record in part.all(ProcessMemory)] == [49]
        assert [cycle.first_step for cycle in part.all(ProfilerCycle)] == [39]
        (scalars,) = part.all(Scalars)
        assert (scalars.steps, scalars.values) == ([10], {"loss": [2.0]})

    def test_moves_the_times_of_device_samples(self, session):
        sample = DeviceSample(step=60, start_ns=60 * MS, end_ns=61 * MS, samples=4)
        (moved,) = steps_in(session(sample), StepSpan(50)).all(DeviceSample)
        assert (moved.start_ns, moved.end_ns) == (10 * MS, 11 * MS)

    def test_lacks_what_was_summed_up_over_the_session(self, session):
        summed = [CoreWait(100, 50), HostLines(3, (), {"forward": 3}), BatchSizes((1, 2))]
        part = steps_in(session(*summed, AnomalyMode()), StepSpan(50))
        assert [type(record) for record in part.records[1:]] == [AnomalyMode, RunEnd]

    def test_counts_untimed_steps_where_their_window_began(self, session):
        untimed = OutsideSpan(
            where=UNTIMED_STEPS, start_ns=15 * MS, dur_ns=40 * MS, phase_ns={}, steps=40
        )
        columns = {"step": np.arange(100) * 5}
        whole = session(untimed, columns=columns)
        early, late = steps_in(whole, StepSpan(0, 99)), steps_in(whole, StepSpan(100))
        assert (early.steps, early.end.steps) == (20, 60)
        assert (late.steps, late.end.steps) == (80, 80)

    def test_before_an_error_has_finished(self, session):
        error = RunEnd(status="exception", wall_ns=100 * MS, steps=100, error="ValueError: no")
        whole = session(error, end=False)
        early, late = steps_in(whole, StepSpan(0, 49)), steps_in(whole, StepSpan(50))
        assert (early.end.status, early.end.error) == ("finished", None)
        assert (late.end.status, late.end.error) == ("exception", "ValueError: no")

    def test_has_no_column_of_what_did_not_run_in_it(self, session):
        late = np.where(np.arange(100) < 50, 0, 3)
        marks = np.where(np.arange(100) < 50, NOT_MEASURED, 3)
        columns = {"part/callbacks/Late": late, "device/forward": marks, "epoch": 0}
        whole = session(columns=columns)
        early, late = steps_in(whole, StepSpan(0, 49)), steps_in(whole, StepSpan(50))
        assert late.columns.keys() - early.columns.keys() == columns.keys() - {"epoch"}

    def test_of_a_live_run_is_live_if_it_has_the_last_step(self, session):
        live = session(end=False)
        assert steps_in(live, StepSpan(50)).end is None
        assert steps_in(live, StepSpan(0, 49)).end.wall_ns == 50 * MS

    @pytest.mark.parametrize(
        ("span", "words"),
        [(StepSpan(100), "steps from 100"), (StepSpan(2000, 3000), "steps 2,000 to 3,000")],
    )
    def test_without_a_recorded_step_is_an_error(self, session, span, words):
        with pytest.raises(RecordError, match=f"has no {words}: it recorded steps 0 to 99."):
            steps_in(session(), span)

    def test_between_two_timed_steps_is_an_error(self, session):
        sparse = session(columns={"step": np.arange(100) * 5})
        with pytest.raises(RecordError, match="it recorded steps 0 to 495"):
            steps_in(sparse, StepSpan(11, 14))

    def test_of_a_session_without_steps_is_an_error(self, session):
        with pytest.raises(RecordError, match="it recorded no step"):
            steps_in(session(steps=0), StepSpan(0, 5))


@pytest.mark.parametrize(
    ("one", "other", "common"),
    [
        (StepSpan(0, 10), StepSpan(5), StepSpan(5, 10)),
        (StepSpan(0), StepSpan(7), StepSpan(7)),
        (StepSpan(0, 10), StepSpan(11), None),
    ],
)
def test_two_spans_may_have_steps_in_common(one, other, common):
    assert one.common(other) == common


class TestLines:
    def test_are_those_of_the_span_if_all_samples_are(self, session):
        lines = HostLines(3, (), {"forward": 3}, first_step=10, last_step=40)
        whole = session(lines)
        assert steps_in(whole, StepSpan(5, 50)).last(HostLines) == lines
        assert steps_in(whole, StepSpan(20)).last(HostLines) is None

    def test_are_the_samples_of_its_steps_where_these_are_recorded(self, session):
        line = LineCount(
            "forward", "t.py", 3, "f", "g()", None, None, 4, doubt=3, steps=(5, 10, 60, 70)
        )
        lines = HostLines(
            8, (line,), {"forward": 6, "backward": 2}, first_step=5, last_step=80,
            steps=(5, 8, 10, 20, 60, 61, 70, 80),
        )  # fmt: skip
        part = steps_in(session(lines), StepSpan(50)).last(HostLines)
        assert (part.whole, part.steps) == (4, (60, 61, 70, 80))
        (inside,) = part.lines
        assert (inside.count, inside.doubt, inside.steps) == (2, 2, (60, 70))
        # Of four samples elsewhere, two in each phase, half are in the span.
        assert part.by_phase == {"forward": 3, "backward": 1}

    def test_of_captures_count_together_with_the_others(self, session):
        first, second = (
            HostLines(
                2, (), {"forward": 2}, first_step=step, last_step=step + 1, steps=(step, step)
            )
            for step in (10, 60)
        )
        part = steps_in(session(first, CapturedLines(0, second)), StepSpan(5)).last(HostLines)
        assert (part.whole, part.by_phase) == (4, {"forward": 4})

    def test_of_a_capture_in_the_span_are_those_of_the_span(self, session):
        first = HostLines(3, (), {"forward": 3}, first_step=0, last_step=40)
        later = HostLines(4, (), {"forward": 4}, first_step=60, last_step=70)
        workers = WorkerLines(processes=1, work=2, waiting=0, handing=0, lines=())
        whole = session(first, CapturedLines(0, later, workers))
        part = steps_in(whole, StepSpan(50))
        assert (part.last(HostLines), part.last(WorkerLines)) == (later, workers)
        assert steps_in(whole, StepSpan(65)).last(HostLines) is None
