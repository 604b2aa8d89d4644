"""A run over its overhead budget: what is not marked is absent, and all still adds up."""

import sys
from collections import Counter
from types import SimpleNamespace

import pytest

from lightning_gpuprof.analysis.run.compiling import compile_results
from lightning_gpuprof.analysis.run.steady import steady_steps, step_flags
from lightning_gpuprof.callbacks.phase_timer import PhaseTimer
from lightning_gpuprof.callbacks.region import region
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import UNTIMED_STEPS, Note, OutsideSpan, StepFlag
from lightning_gpuprof.timing import overhead, window_writer


@pytest.fixture(autouse=True)
def costly(monkeypatch):
    """A boundary seems to cost so much that one step in five can be marked."""
    monkeypatch.setattr(overhead, "_MIN_STEPS", 4)
    monkeypatch.setattr(overhead, "MOST_APART", 5)
    monkeypatch.setattr(overhead, "boundary_cost_ns", lambda: 1e9)
    monkeypatch.setattr(window_writer, "_MOST_WAITING", 1)


@pytest.fixture
def sparse(planted, clock, tmp_path):
    def run(**options):
        run.timer = timer = PhaseTimer(window=4, warmup=0, console=False, clock=clock)
        planted.fit(timer, clock, tmp_path, **{"max_epochs": 8, **options})
        return planted.sessions(timer)[0]

    return run


def test_steps_that_are_not_marked_are_absent_and_the_wall_time_adds_up(planted, sparse):
    measured = sparse()

    session = measured.session
    assert session.end.steps == 8 * planted.STEPS
    assert 8 + 4 <= session.steps < session.end.steps / 2
    steps = session.columns["step"]
    assert (steps[1:] > steps[:-1]).all()
    phases = sum(session.phase_ns(Phase(name)) for name in session.start.phases)
    assert (phases == session.columns["dur_ns"]).all()
    spans = sum(span.dur_ns for span in session.all(OutsideSpan))
    assert session.columns["dur_ns"].sum() + spans == session.end.wall_ns


def test_it_says_of_which_steps_the_phases_are(sparse):
    notes = [n for n in sparse().session.all(Note) if n.name == "overhead-budget"]

    assert [note.value for note in notes] == [5]
    assert "it times one step in 5 by phase" in notes[0].message


def test_an_epochs_first_step_is_marked_always(planted, sparse):
    session = sparse().session

    for epoch in range(8):
        assert epoch * planted.STEPS in session.columns["step"]


def test_validation_and_checkpoints_of_steps_without_marks_are_not_lost(planted, sparse, clock):
    session = sparse(val_check_interval=3).session

    passed = [span for span in session.all(OutsideSpan) if span.where == UNTIMED_STEPS]
    assert passed
    assert Phase.OTHER.value not in {name for span in passed for name in span.phase_ns}
    spans = session.all(OutsideSpan)
    for phase in (Phase.VALIDATION, Phase.CHECKPOINT):
        in_steps = int(session.phase_ns(phase).sum())
        outside = sum(span.phase_ns.get(phase.value, 0) for span in spans)
        assert in_steps + outside == planted.planted_by_phase(clock)[phase.value]
    flagged = sum(span.flagged.get("validation", 0) for span in passed)
    marked = int(((session.columns["flags"] & int(StepFlag.VALIDATION)) != 0).sum())
    assert flagged
    assert flagged + marked == 8 * planted.STEPS // 3


def test_what_lies_between_epochs_has_its_names_after_steps_without_marks(planted, sparse, clock):
    class Reloading(planted.Model):
        def train_dataloader(self):
            self.clock.plant(Phase.DATA_WAIT, "train_dataloader")
            return super().train_dataloader()

    measured = sparse(model=Reloading(clock), reload_dataloaders_every_n_epochs=1)

    made = clock.planted[Phase.DATA_WAIT.value, "train_dataloader"]
    assert measured.part_ns("data_wait/train_dataloader") == made
    ends = [span for span in measured.outside if span.where == "epoch_end"]
    assert len(ends) == 8
    assert all("callbacks/SlowCallback" in span.part_ns for span in ends)


def test_named_components_are_timed_in_marked_steps_alone(planted, clock, sparse):
    timed = []

    class Dreaming(planted.Model):
        def training_step(self, batch, batch_idx):
            timeline = sparse.timer._run.timeline
            before = len(timeline.clock.codes)
            with region("dream"):
                clock.now_ns += 70_000
            timed.append((timeline.timed, len(timeline.clock.codes) - before))
            return super().training_step(batch, batch_idx)

    session = sparse(model=Dreaming(clock)).session

    assert set(timed) == {(True, 2), (False, 0)}
    assert set(session.columns["part/forward/dream"].tolist()) == {70_000}


def test_compilations_in_steps_without_marks_are_counted(planted, clock, sparse, monkeypatch):
    frames = Counter(total=0)
    dynamo = SimpleNamespace(counters={"frames": frames})
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", dynamo)
    compiled = []

    class Recompiling(planted.Model):
        def training_step(self, batch, batch_idx):
            timeline = sparse.timer._run.timeline
            if timeline.step >= 20 and timeline.step % 6 in (2, 3):
                frames["total"] += 1
                clock.now_ns += 1_000_000
                compiled.append(timeline.timed)
            return super().training_step(batch, batch_idx)

    session = sparse(model=Recompiling(clock)).session
    flags = step_flags(session)
    found = compile_results(session, steady_steps(session)).time
    assert compiled.count(False) > compiled.count(True) > 0
    assert (flags & StepFlag.COMPILED != 0).sum() == compiled.count(True)
    # All but the first, which is no repetition.
    assert (found.again.count, found.steps) == (len(compiled) - 1, session.end.steps)
    assert found.again.took_ns >= 1_000_000 * (len(compiled) - 1)
