"""A planner for a vehicle, on two processes; after each epoch it drives 24 routes of its own.

report: tier4/Diffusion-Planner pull request 337, "feat(closed_loop): shard evaluation across all DDP
    ranks" ("closed_loop_validate runs inside if global_rank == 0, so one GPU does the evaluation while
    the rest idle at the next collective")
cause: only the first process drives the routes at an epoch's end; the other one waits for it in the
    next epoch's first reduction of gradients
right: on_train_epoch_end of rank 0 (the drives, a marked line) takes a large part of the run, while
    rank 1 waits for it (its first step of an epoch is as long as rank 0's drives); the change is to
    share the routes among the ranks and add up what they find, or to drive less often
FIX=1 mends it: every second route for each process, then one sum.
"""

import clock
import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, BATCHES, ROUTES, MOVES, STATE = 5, 40, 24, 500, 64


class Planner(pl.LightningModule):
    def __init__(self):
        super().__init__()
        layers = nn.Linear(STATE, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU()
        self.net = nn.Sequential(*layers, nn.Linear(512, STATE))

    def training_step(self, batch, index):
        return (self.net(batch[0]) - batch[0].roll(1, 1)).square().mean()

    @torch.no_grad()
    def drive(self, route):
        state = torch.randn(1, STATE, generator=torch.Generator().manual_seed(route))
        for _ in range(MOVES):
            state = 0.9 * state + 0.1 * self.net(state).tanh()
        return state.abs().mean()

    def on_train_epoch_end(self):
        if clock.FIX:
            mine = range(self.global_rank, ROUTES, self.trainer.world_size)
            off = self.trainer.strategy.reduce(sum(map(self.drive, mine)), reduce_op="sum")
        elif self.global_rank == 0:  # cause
            off = sum(map(self.drive, range(ROUTES)))  # cause
        if self.global_rank == 0:
            self.off = float(off / ROUTES)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 1e-2)


if __name__ == "__main__":
    made, times = clock.trainer(
        max_epochs=EPOCHS, devices=2, strategy="ddp", enable_checkpointing=False, logger=False
    )
    data = DataLoader(TensorDataset(torch.randn(2 * BATCHES * 16, STATE)), 16)
    model = Planner()
    clock.timed(made, times, lambda: made.fit(model, data))
