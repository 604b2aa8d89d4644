"""Ten clean runs in which nothing is worth a warning, one table row each."""

from functools import partial
from typing import Any

import torch
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import TensorBoardLogger
from torch import Tensor, nn
from workload import BATCH, FEATURES, TARGETS, WIDTH, Rows, Setup, Workload


class Convolutions(Workload):
    """Rows seen as small pictures; contiguous, at full width."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Unflatten(1, (1, 16, 16)),
            nn.Conv2d(1, 32, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 32, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(32 * 64, TARGETS),
        )


class Attention(Workload):
    """Rows seen as 16 tokens of width 16."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True)
        self.net = nn.Sequential(
            nn.Unflatten(1, (16, 16)),
            nn.Linear(16, 128),
            nn.TransformerEncoder(layer, 1, enable_nested_tensor=False),
            nn.Flatten(),
            nn.Linear(16 * 128, TARGETS),
        )


class Compiled(Workload):
    """Compiled once, for one shape."""

    def __init__(self) -> None:
        super().__init__()
        self.net = torch.compile(self.net, backend="aot_eager", dynamic=False)


class TwoPlayers(Workload):
    """A small GAN: manual optimization, two optimizers, two updates per batch."""

    optimizer_steps = 2

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.judge = nn.Sequential(nn.Linear(TARGETS, WIDTH), nn.GELU(), nn.Linear(WIDTH, 1))

    def update(self, optimizer: Any, loss: Tensor) -> None:
        optimizer.zero_grad()
        self.manual_backward(loss)
        optimizer.step()

    def training_step(self, batch: Any, batch_idx: int) -> None:
        self.note_begin()
        inputs, targets = batch
        maker, judge = self.optimizers()
        made = self(inputs)
        self.update(judge, (self.judge(made.detach()) - self.judge(targets)).mean().tanh())
        self.update(maker, -self.judge(made).mean().tanh())

    def configure_optimizers(self) -> Any:
        parts = (self.net, self.judge)
        return [torch.optim.AdamW(part.parameters(), lr=1e-4, fused=True) for part in parts]


class LogsSometimes(Workload):
    """Logs its loss every 60 steps."""

    def training_step(self, batch: Any, batch_idx: int) -> Tensor | None:
        loss = super().training_step(batch, batch_idx)
        if batch_idx % 60 == 59:
            self.log("loss", loss)
        return loss


SEVERAL_EPOCHS = 60
CONTROLS: dict[str, Setup] = {
    "perceptron": Setup(),
    "convolutions": Setup(module=Convolutions),
    "attention": Setup(module=Attention),
    "compiled": Setup(module=Compiled),
    "two_players": Setup(module=TwoPlayers),
    "accumulation": Setup(trainer={"accumulate_grad_batches": 4}),
    "clipping_and_epochs": Setup(trainer={"gradient_clip_val": 1.0}, epoch_steps=SEVERAL_EPOCHS),
    "one_worker": Setup(
        loader={"num_workers": 1, "persistent_workers": True}, epoch_steps=SEVERAL_EPOCHS
    ),
    "logging_and_rates": Setup(
        module=LogsSometimes,
        logger=TensorBoardLogger,
        callbacks=(partial(LearningRateMonitor, logging_interval="epoch"),),
        trainer={"log_every_n_steps": 60},
    ),
    "validation_and_checkpoint": Setup(
        val_dataset=partial(Rows, BATCH),
        trainer={"val_check_interval": 120, "enable_checkpointing": True},
        callbacks=(partial(ModelCheckpoint, every_n_train_steps=120),),
        timed_steps=240,
    ),
}

assert FEATURES == 16 * 16  # two of the models above see a row as 16 x 16
