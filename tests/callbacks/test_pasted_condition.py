"""The condition that findings propose to paste, in real training with a logger."""

import pytest
import torch
from deferred_runs import logged
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader

from lightning_gpuprof.findings.rules.slow_logging import EVERY_N_STEPS, LOGGED

BATCHES = 5 * EVERY_N_STEPS


class Guarded(BoringModel):
    """Logs where the condition holds."""

    def training_step(self, batch, batch_idx):
        loss = self.layer(batch).mean()
        if eval(LOGGED):
            self.log("batch", float(batch_idx))
        return loss


class TwoOptimizers(Guarded):
    """Steps two optimizers by hand in each batch."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        self.manual_backward(super().training_step(batch, batch_idx))
        for optimizer in self.optimizers():
            optimizer.step()

    def configure_optimizers(self):
        return [torch.optim.SGD(self.parameters(), 0.1) for _ in range(2)]


@pytest.mark.parametrize(
    ("module", "log_every_n_steps", "accumulate"),
    [(Guarded, 50, 1), (Guarded, 10, 1), (TwoOptimizers, 50, 1), (Guarded, 25, 2)],
)
def test_the_values_of_the_batches_in_which_it_holds_reach_the_logger(
    tmp_path, module, log_every_n_steps, accumulate
):
    trainer = Trainer(
        max_epochs=1,
        logger=CSVLogger(tmp_path),
        log_every_n_steps=log_every_n_steps,
        accumulate_grad_batches=accumulate,
    )
    trainer.fit(module(), DataLoader(RandomDataset(32, BATCHES)), [])
    assert set(logged(trainer, "batch").values()) == {49.0, 99.0, 149.0, 199.0, 249.0}
