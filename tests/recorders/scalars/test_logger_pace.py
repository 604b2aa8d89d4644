from types import SimpleNamespace

import pytest
from lightning.pytorch.loggers import Logger

from lightning_gpuprof.recorders.scalars.logger_pace import LoggerPace


class Server(Logger):
    """Takes a millisecond per call, by a clock that only it moves."""

    name, version = "server", 0

    def __init__(self, clock):
        super().__init__()
        self.clock, self.steps = clock, []

    def log_hyperparams(self, *args):
        pass

    def log_metrics(self, metrics, step):
        self.clock.now += 1_000_000
        self.steps.append(step)


def log_steps(pace, count):
    for step in range(count):
        if pace.is_due(step):
            pace.log({"loss": 1.0}, step)


def test_a_slow_logger_gets_the_trainers_pace_and_that_is_said():
    clock = SimpleNamespace(now=0)
    server = Server(clock)
    pace = LoggerPace(server, every=None, slow_every=10, now=lambda: clock.now)
    with pytest.warns(UserWarning, match=r"Server takes 1\.0 ms .* one step in 10 "):
        log_steps(pace, 30)
    assert server.steps == [0, 1, 2, 10, 20]


def test_a_slow_logger_gets_what_was_asked_for_outright():
    clock = SimpleNamespace(now=0)
    server = Server(clock)
    pace = LoggerPace(server, every=1, slow_every=10, now=lambda: clock.now)
    log_steps(pace, 5)
    assert server.steps == [0, 1, 2, 3, 4]
