"""The condition that findings propose to paste, in real training with a logger."""

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.loggers import Logger
from torch.utils.data import DataLoader, TensorDataset

from lightning_gpuprof.findings.rules.slow_logging import EVERY_N_STEPS, LOGGED

BATCHES = 5 * EVERY_N_STEPS


class Kept(Logger):
    """A logger that keeps the batches whose values it gets."""

    name, version = "kept", 0

    def __init__(self):
        super().__init__()
        self.batches = set()

    def log_metrics(self, metrics, step=None):
        if "batch" in metrics:
            self.batches.add(metrics["batch"])

    def log_hyperparams(self, *_):
        pass


class Guarded(LightningModule):
    """Logs where the condition holds."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def training_step(self, batch, batch_idx):
        loss = self.layer(batch[0]).mean()
        if eval(LOGGED):
            self.log("batch", float(batch_idx))
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


class TwoOptimizers(Guarded):
    """Steps two optimizers by hand in each batch."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        self.manual_backward(loss)
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
    logger = Kept()
    trainer = Trainer(
        max_epochs=1,
        logger=logger,
        log_every_n_steps=log_every_n_steps,
        accumulate_grad_batches=accumulate,
        default_root_dir=tmp_path,
    )
    trainer.fit(module(), DataLoader(TensorDataset(torch.ones(BATCHES, 1))))
    assert logger.batches == {49.0, 99.0, 149.0, 199.0, 249.0}
