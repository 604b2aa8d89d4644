"""Steps that are looked at with hooks are flagged, so that none of them stands for the run."""

import pytest
import torch
from lightning.pytorch import Callback
from lightning.pytorch.demos.boring_classes import BoringModel

from lightning_gpuprof.analysis.run.steady import step_stats
from lightning_gpuprof.callbacks.phase_timer import PhaseTimer
from lightning_gpuprof.callbacks.watches.call_watch import CallWatch
from lightning_gpuprof.callbacks.watches.function_watch import FunctionWatch
from lightning_gpuprof.callbacks.watches.gradient_watch import GradientWatch
from lightning_gpuprof.records.schema import StepFlag

STEPS = 16


class Twice(BoringModel):
    """Runs its layer twice on the same; its head is in no optimizer."""

    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(2, 2)

    def training_step(self, batch, batch_idx):
        return self.head(self.layer(batch)).square().mean() + self.layer(batch).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.layer.parameters(), 0.01)


class Sees(Callback):
    """Keeps the steps that are flagged before the border at which they begin."""

    def __init__(self, watch):
        self.watch, self.flagged = watch, []

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if self.watch._output.step_flags:
            self.flagged.append(batch_idx + 1)


@pytest.fixture
def watched(session_of):
    def steps(watch, model, warmup=0, more=()):
        timer = PhaseTimer(console=False, warmup=warmup)
        session = session_of(model, timer, watch, *more, limit_train_batches=STEPS)
        flags = session.columns["flags"].tolist()
        return [step for step, flag in enumerate(flags) if flag & StepFlag.WATCHED], session

    return steps


@pytest.mark.parametrize(
    ("watch", "model", "steps"),
    [
        (GradientWatch, BoringModel, range(4)),
        (GradientWatch, Twice, range(8)),  # and once more, with times
        (CallWatch, BoringModel, [1]),
        (CallWatch, Twice, range(1, 5)),
        (FunctionWatch, BoringModel, [1, 2]),
    ],
)
def test_the_steps_of_a_look_are_flagged_and_no_others(watched, watch, model, steps):
    look = watch()
    sees = Sees(look)
    assert watched(look, model(), more=[sees])[0] == list(steps)
    assert sees.flagged == [step for step in steps if step]


def test_those_of_the_warm_up_are_told_as_warm_up_alone(watched):
    _, session = watched(GradientWatch(), Twice(), warmup=5)
    stats = step_stats(session)
    assert [(one.reason, one.count) for one in stats.apart] == [("warmup", 5), ("watched", 3)]
    assert stats.dur.count == STEPS - 8
