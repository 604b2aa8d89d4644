from types import SimpleNamespace

import pytest
from lightning.pytorch import Callback

from lightning_gpuprof.session.hooks import BatchCalls
from lightning_gpuprof.session.step_start import StepBorders


class Training:
    """A Trainer amid an epoch; with a timer's list of borders, or with hooks alone."""

    def __init__(self, *, timed):
        self.progress = SimpleNamespace(total=SimpleNamespace(completed=0))
        loop = SimpleNamespace(batch_progress=self.progress)
        self.fit_loop = SimpleNamespace(epoch_loop=loop)
        self.callback = Callback()
        self.callback.on_train_batch_start = self.callback.on_train_batch_end = None
        self.callbacks = [self.callback]
        self.borders = [] if timed else None
        self.calls = BatchCalls.counted_by(self.callback) if timed else None
        self.seen = []

    def border(self):
        return StepBorders(self, self.callback, self.seen.append, self)

    def steps(self, count):
        for _ in range(count):
            for border in tuple(self.borders or ()):
                border.reach()
            if self.callback.on_train_batch_start is not None:
                self.callback.on_train_batch_start(self, None, None, 0)
            if self.calls is not None:
                self.calls.left -= 1
                if self.calls.left <= 0:
                    self.calls.ring()
            if self.callback.on_train_batch_end is not None:
                self.callback.on_train_batch_end(self, None, None, None, 0)
            self.progress.total.completed += 1

    @property
    def looked_at(self):
        return bool(self.borders) or self.callback.on_train_batch_start is not None


@pytest.fixture(params=[True, False], ids=["timed", "by hooks"])
def training(request):
    return Training(timed=request.param)


def test_borders_that_sleep_for_good_look_at_no_step_and_wake_again(training):
    borders = training.border()
    training.steps(2)
    borders.sleep_until(None)
    assert not training.looked_at

    training.steps(2)
    borders.wake()
    training.steps(1)
    assert training.seen == [0, 1, 4]
    borders.remove()
    training.steps(1)
    assert not training.looked_at
    assert training.seen == [0, 1, 4]


def test_a_border_that_is_far_ahead_looks_at_no_step_until_it_is_near(training):
    training.border().sleep_until(200)
    training.steps(90)
    assert not training.looked_at

    training.steps(109)
    assert training.seen == []
    assert training.looked_at
    training.steps(3)
    assert training.seen == [200, 201]


def test_batches_that_the_loop_alone_counts_do_not_make_a_far_border_late(training):
    training.border().sleep_until(200)
    training.progress.total.completed += 60  # skipped: no hook was called
    training.steps(141)
    assert training.seen == [200]


def test_where_the_timer_stops_hooks_tell_of_the_steps_to_come():
    training = Training(timed=True)
    borders = training.border()
    training.steps(2)
    training.borders = None
    borders.go_on_by_hook()
    training.steps(2)
    assert training.seen == [0, 1, 2, 3]
