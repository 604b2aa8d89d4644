"""Where a double pendulum is next: a small net whose passes are CUDA graphs, its data on the GPU.

Bound by the host as any net of this size; what is left of a step is Lightning's own loop.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments, sized
from torch import nn

STEPS = 150
BATCH, WIDTH, DEVICE = sized((4096, 512, "cuda"), (64, 32, "cpu"))
STATES = 4


class Batches:
    """Draws each batch on the device that holds all states."""

    def __init__(self, number: int) -> None:
        self.states = torch.randn(number * BATCH, STATES, device=DEVICE)
        self.nexts = self.states + 0.1 * self.states.sin()

    def __len__(self):
        return len(self.states) // BATCH

    def __iter__(self):
        for rows in torch.randperm(len(self.states), device=DEVICE).split(BATCH):
            yield self.states[rows], self.nexts[rows]


class Pendulum(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(STATES, WIDTH),
            nn.SiLU(),
            nn.Linear(WIDTH, WIDTH),
            nn.SiLU(),
            nn.Linear(WIDTH, WIDTH),
            nn.SiLU(),
            nn.Linear(WIDTH, STATES),
        )

    def on_fit_start(self):
        if self.device.type == "cuda":
            sample = torch.randn(BATCH, STATES, device=self.device)
            self.net = torch.cuda.make_graphed_callables(self.net, (sample,))

    def training_step(self, batch, batch_idx):
        states, nexts = batch
        loss = nn.functional.mse_loss(states + self.net(states), nexts)
        if batch_idx % 50 == 0:
            self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    torch.set_float32_matmul_precision("high")
    L.Trainer(enable_checkpointing=False, callbacks=run.callbacks, **run.trainer).fit(
        Pendulum(), Batches(200)
    )


if __name__ == "__main__":
    main(arguments(STEPS))
