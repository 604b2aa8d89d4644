"""A look at what a piece of a forward pass calls, with a clock of its own."""

import pytest
import torch

from lightning_gpuprof.probes.looks.function_calls import FunctionCalls
from lightning_gpuprof.probes.looks.function_mode import Watching
from lightning_gpuprof.probes.looks.function_uses import notes_of
from lightning_gpuprof.probes.looks.separable_windows import separable_windows


class Clock:
    """A thousand nanoseconds for each function."""

    now = 0

    def __call__(self):
        self.now += 1_000
        return self.now


@pytest.fixture
def looked():
    """Return the notes of two batches in which `work` is given what `make` makes."""

    def look(work, make, model=None):
        batches = []
        for number in range(2):
            torch.manual_seed(number)
            given = make()
            batches.append(FunctionCalls(model or torch.nn.Linear(1, 1)))
            mode = Watching(batches[-1].seen, Clock())
            mode.start()
            try:
                work(*given)
            finally:
                mode.stop()
        windows = separable_windows([one.windows for one in batches], Clock())
        return notes_of(batches, None, windows=windows)

    return look
