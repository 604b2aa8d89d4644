from types import SimpleNamespace

import pytest
from lightning.pytorch import Callback, LightningModule

from lightning_gpuprof.session.step_start import StepBorders


class Loop:
    """Lightning's loop over batches, as far as borders go."""

    def __init__(self):
        self.batch_progress = SimpleNamespace(total=SimpleNamespace(completed=0))

    def _on_before_fetch(self):
        pass


class Training:
    """A Trainer amid an epoch: what fetches its batches holds the loop's method."""

    def __init__(self):
        self.loop = Loop()
        self.fetcher = SimpleNamespace(_start_profiler=self.loop._on_before_fetch)
        self.callback = Callback()
        self.callback.on_train_batch_end = None
        self.callbacks = [self.callback]
        self.lightning_module = LightningModule()
        self.fit_loop = SimpleNamespace(epoch_loop=self.loop, _data_fetcher=self.fetcher)

    def steps(self, count):
        for _ in range(count):
            self.fetcher._start_profiler()
            if self.callback.on_train_batch_end is not None:
                self.callback.on_train_batch_end(self, self.lightning_module, None, None, 0)
            self.loop.batch_progress.total.completed += 1

    @property
    def is_lightnings_own(self):
        held = self.fetcher._start_profiler, self.loop._on_before_fetch
        return held == (Loop._on_before_fetch.__get__(self.loop),) * 2


@pytest.fixture
def training():
    return Training()


def test_borders_that_sleep_for_good_leave_nothing_in_the_loop_and_wake_again(training):
    seen = []
    borders = StepBorders(training, Callback(), seen.append)
    training.steps(2)
    borders.sleep_until(None)
    assert training.is_lightnings_own

    training.steps(2)
    borders.wake()
    training.steps(1)
    assert seen == [0, 1, 4]


def test_a_border_that_is_far_ahead_leaves_nothing_in_the_loop_until_it_is_near(training):
    seen = []
    borders = StepBorders(training, training.callback, seen.append)
    borders.sleep_until(200)
    training.steps(90)
    assert training.is_lightnings_own

    training.steps(109)
    assert seen == []
    assert not training.is_lightnings_own
    training.steps(3)
    assert seen == [200, 201]


def test_batches_that_the_loop_alone_counts_do_not_make_a_far_border_late(training):
    seen = []
    StepBorders(training, training.callback, seen.append).sleep_until(200)
    training.loop.batch_progress.total.completed += 60  # skipped: no hook was called
    training.steps(141)

    assert seen == [200]


def test_of_two_that_leave_amid_an_epoch_in_any_order_the_other_goes_on(training):
    below, above = [], []
    one = StepBorders(training, Callback(), below.append)
    other = StepBorders(training, Callback(), above.append)
    one.sleep_until(None)
    training.steps(1)
    one.wake()
    training.steps(1)
    other.remove()
    training.steps(1)
    one.remove()

    assert (below, above) == ([1, 2], [0, 1])
    assert training.is_lightnings_own
    training.steps(1)
    assert (below, above) == ([1, 2], [0, 1])


def test_one_that_sleeps_below_another_is_back_when_it_is_woken(training):
    below, above = [], []
    one = StepBorders(training, Callback(), below.append)
    other = StepBorders(training, Callback(), above.append)
    one.sleep_until(None)
    other.remove()
    assert training.is_lightnings_own
    one.wake()
    training.steps(1)
    assert (below, above) == ([0], [])
