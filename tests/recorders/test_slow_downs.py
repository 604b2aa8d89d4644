"""Slow-downs that are noticed while training runs, on a fake clock."""

import numpy as np
import pytest
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset
from torch.utils.data import DataLoader

from lightning_gpuprof.callbacks.phase_timer import PhaseTimer
from lightning_gpuprof.callbacks.run_facts import RunFacts
from lightning_gpuprof.recorders.slow_downs import SlowDowns
from lightning_gpuprof.records.facts import CoreWait, SlowDown, SlowDownShape
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.runtime.recording import RecordingCallback
from lightning_gpuprof.shifts.online import SlowDownWatch
from lightning_gpuprof.shifts.step_rows import StepRows

STEPS = 1_300
US = 1_000


class Slows(BoringModel):
    """Its step takes 1 ms, give or take a twentieth, and what is planted."""

    def __init__(self, clock, planted_us):
        super().__init__()
        self.clock, self.planted_us = clock, planted_us
        self.noise = np.random.default_rng(7).normal(0, 50, STEPS).astype(int).tolist()

    def training_step(self, batch, batch_idx):
        self.clock.now_ns += (1_000 + self.noise[batch_idx] + self.planted_us(batch_idx)) * US
        return super().training_step(batch, batch_idx)

    def on_after_backward(self):
        self.clock.now_ns += 400 * US


def never_waits():
    """The kernel's counter of waits for a core, which stands still."""
    return CoreWait(0, 0)


class Listens(RecordingCallback):
    def __init__(self):
        super().__init__()
        self.heard = []

    def on_slow_down(self, slow_down):
        self.heard.append(slow_down)


@pytest.fixture
def fit(session_of, clock):
    def fitted(planted_us, *, console=False):
        listens = Listens()
        callbacks = (
            PhaseTimer(console=console, clock=clock),
            RunFacts([SlowDowns(never_waits)]),
            listens,
        )
        data = DataLoader(RandomDataset(32, STEPS))
        session = session_of(Slows(clock, planted_us), *callbacks, data=data)
        recorded = session.all(SlowDown)
        assert listens.heard == recorded
        return recorded

    return fitted


def test_a_step_that_takes_longer_from_some_step_on_is_noticed(fit):
    (slow_down,) = fit(lambda step: 300 * (step >= 341))
    assert slow_down.shape is SlowDownShape.STEP
    assert abs(slow_down.since_step - 341) <= 5
    assert (slow_down.phase, slow_down.lasts) == ("forward", True)
    assert slow_down.more_ns == pytest.approx(300 * US, rel=0.1)
    assert slow_down.noticed_step < 700


def test_a_step_that_grows_is_noticed_as_a_ramp(fit):
    (slow_down,) = fit(lambda step: 3 * max(0, step - 300))
    assert slow_down.shape is SlowDownShape.RAMP
    assert abs(slow_down.since_step - 300) <= 20
    assert slow_down.per_100_steps_ns == pytest.approx(300 * US, rel=0.2)


def test_spikes_that_recur_are_noticed(fit):
    (slow_down,) = fit(lambda step: 9_000 * (step >= 320 and step % 40 == 0))
    assert slow_down.shape is SlowDownShape.SPIKES
    assert (slow_down.since_step, slow_down.every_steps) == (320, 40)
    assert slow_down.height_ns == pytest.approx(9_000 * US, rel=0.05)


def test_a_slow_down_that_ends_is_reported_twice(fit):
    began, ended = fit(lambda step: 500 * (300 <= step < 790))
    assert began.since_step == ended.since_step
    assert began.lasts
    assert abs(ended.until_step - 789) <= 60


def test_steps_that_stay_alike_are_no_slow_down(fit):
    assert not fit(lambda step: 0)


def test_single_slow_steps_are_no_slow_down(fit):
    assert not fit(lambda step: 20_000 * (step in (205, 333, 334, 481, 560)))


def test_the_console_says_it_once(fit, said):
    with said(
        r"slower since step 30\d: 1.4\d ms -> 1.\d\d ms per step, mostly in forward"
    ) as texts:
        fit(lambda step: 500 * (300 <= step < 790), console=True)
    assert sum("slower" in text for text in texts) == 1


def spiking(watch, spiking_phases, *, timed_every, until=8_000):
    """Have a watch look at 8,000 steps, with spikes every 50 steps from step 2,000 on."""
    random, steps = np.random.default_rng(3), np.arange(8_000)
    high = (steps >= 2_000) & (steps < until) & (steps % 50 == 0)
    times = {
        phase: (500 * US * np.exp(random.normal(0, 0.06, len(steps)))).astype(np.int64)
        + high * (phase in spiking_phases) * 9_000 * US
        for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.CALLBACKS)
    }
    timed = (steps + steps // timed_every) % timed_every == 0
    whole = sum(times.values())
    long = ~timed & (whole > 1.3 * np.median(whole))
    noticed = []
    for window in np.array_split(steps, 10):
        own, others = window[timed[window]], window[long[window]]
        rows = StepRows(
            own,
            np.zeros(len(own), dtype=np.int64),
            {phase: ns[own] for phase, ns in times.items()},
            long_steps=others,
            long_ns=whole[others],
        )
        slow_down = watch.add(rows)
        noticed += [] if slow_down is None else [slow_down]
    return noticed


@pytest.mark.parametrize("timed_every", [1, 4, 8])
@pytest.mark.parametrize("phases", [(Phase.CALLBACKS,), (Phase.FORWARD, Phase.CALLBACKS)])
def test_spikes_that_go_on_are_not_over(phases, timed_every):
    (slow_down,) = spiking(SlowDownWatch(), phases, timed_every=timed_every)
    assert (slow_down.shape, slow_down.since_step) == (SlowDownShape.SPIKES, 2_000)
    assert slow_down.phase == ("callbacks" if len(phases) == 1 else None)


@pytest.mark.parametrize("timed_every", [1, 4])
@pytest.mark.parametrize("phases", [(Phase.CALLBACKS,), (Phase.FORWARD, Phase.CALLBACKS)])
def test_spikes_that_cease_are_over_with_the_last(phases, timed_every):
    _, ended = spiking(SlowDownWatch(), phases, timed_every=timed_every, until=5_000)
    assert (ended.since_step, ended.until_step) == (2_000, 4_950)
