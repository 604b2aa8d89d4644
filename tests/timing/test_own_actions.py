"""A program's own actions: `self.trainer.profiler.profile(...)`, used as Lightning's may be."""

from collections import Counter
from itertools import count

import pytest
import torch
from lightning.pytorch.demos.boring_classes import BoringModel

from lightning_gpuprof.adapters.actions import LOADER_SETUP_ACTION
from lightning_gpuprof.callbacks.phase_timer import PhaseTimer
from lightning_gpuprof.records.phases import WORKER_STARTUP
from lightning_gpuprof.records.schema import OutsideSpan
from lightning_gpuprof.timing.attach import ProxyTiming

STEPS = 4


class Acts(BoringModel):
    def __init__(self):
        super().__init__()
        self.given = []

    def training_step(self, batch, batch_idx):
        profiler = self.trainer.profiler

        @profiler.profile("penalty")
        def penalty(weight):
            return weight.square().sum()

        with profiler.profile("head") as name:
            self.given.append(name)
            loss = self.layer(batch).mean()
        return loss + penalty(self.layer.weight)


@pytest.fixture(params=[True, False])
def marked(request, monkeypatch):
    """Steps have marks, or none."""
    if not request.param:
        begin = ProxyTiming.time_loader
        monkeypatch.setattr(ProxyTiming, "time_loader", lambda self: (begin(self), self.use(False)))
    return request.param


@pytest.mark.usefixtures("marked")
@pytest.mark.parametrize("profiler", [None, "simple"])
def test_a_function_decorated_in_setup_is_timed_in_each_call_marked_or_not(session_of, profiler):
    class Decorates(BoringModel):
        def setup(self, stage):
            self.penalty = self.trainer.profiler.profile("penalty")(lambda: None)
            self.codes = timer._run.timeline.clock.codes

        def add(self, where):
            before = len(self.codes)
            self.penalty()
            added.add((where, len(self.codes) - before))

        def training_step(self, batch, batch_idx):
            self.add("training")
            return super().training_step(batch, batch_idx)

        def validation_step(self, batch, batch_idx):
            self.add("validation")

    added, model = set(), Decorates()
    timer = PhaseTimer(console=False, clock=count(0, 1_000).__next__)
    session_of(
        model, timer, limit_train_batches=STEPS, limit_val_batches=1, num_sanity_val_steps=0,
        profiler=profiler,
    )  # fmt: skip
    model.add("after")
    # The user's profiler has a region of its own as it begins and as it ends the action.
    boundaries = 6 if profiler else 2
    assert added == {("training", boundaries), ("validation", boundaries), ("after", 0)}
    own = model.trainer.profiler
    if profiler:
        assert len(own.recorded_durations["penalty"]) == STEPS + 2


@pytest.mark.parametrize("profiler", [None, "simple"])
def test_they_decorate_functions_and_give_their_name(session_of, profiler, marked):
    model = Acts()
    options = {"limit_train_batches": STEPS, "profiler": profiler}
    timer = PhaseTimer(console=False, clock=count(0, 1_000).__next__)
    session = session_of(model, timer, **options)
    assert model.given == ["head"] * STEPS
    parts = {name for name in session.columns if name.startswith("part/forward")}
    assert ({"part/forward/head", "part/forward/penalty"} <= parts) or not marked


def test_the_action_in_which_newer_lightning_starts_workers_counts_as_their_start(session_of):
    ticks = count(0, 1_000)

    class Loader:
        """Opens the action as Lightning after 2.6 does, around the creation of the iterators."""

        def __iter__(self):
            with model.trainer.profiler.profile(LOADER_SETUP_ACTION):
                for _ in range(1_000):
                    next(ticks)
                return iter(torch.zeros(STEPS, 1, 32))

    model = BoringModel()
    session = session_of(model, PhaseTimer(console=False, clock=ticks.__next__), data=Loader())
    parts = Counter()
    for span in session.all(OutsideSpan):
        parts.update(span.part_ns)
    assert parts[f"data_wait/{WORKER_STARTUP}"] > 1_000_000
    assert not [part for part in parts if LOADER_SETUP_ACTION in part]
