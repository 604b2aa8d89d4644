"""Sensors of one plant for another: deep thin networks, and a critic that tells the plants apart.

seen in: a guise of: unfused optimizer with many parameters

cause: both NAdams go through their hundreds of small tensors one by one (on a CPU that is what an
    optimizer does that is not told otherwise)
right: says that the optimizers' steps over many small parameters are the cost, or points at a
    marked line first; its change updates all of them together (foreach=True: NAdam has no fused
    form)
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 800  # of two optimizers: 400 batches
SENSORS, WIDTH = 40, 48


class Readings(Dataset):
    def __init__(self, count: int) -> None:
        self.known, self.other = torch.randn(count, SENSORS), torch.randn(count, SENSORS) + 0.3
        self.output = torch.randn(count)

    def __len__(self) -> int:
        return len(self.output)

    def __getitems__(self, indices):
        return {
            "known": self.known[indices],
            "other": self.other[indices],
            "output": self.output[indices],
        }


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return x + torch.relu(self.linear(self.norm(x)))


def deep(read: int, depth: int, told: int) -> nn.Sequential:
    blocks = [Block() for _ in range(depth)]
    return nn.Sequential(nn.Linear(read, WIDTH), *blocks, nn.Linear(WIDTH, told))


class Plants(L.LightningModule):
    automatic_optimization = False

    def __init__(self, together: bool) -> None:
        super().__init__()
        self.together = together
        self.encoder = deep(SENSORS, 36, WIDTH)
        self.output, self.critic = nn.Linear(WIDTH, 1), deep(WIDTH, 12, 1)

    def training_step(self, batch, batch_idx):
        learner, judge = self.optimizers()
        known, other = self.encoder(torch.cat([batch["known"], batch["other"]])).chunk(2)
        fooled = nn.functional.softplus(-self.critic(other)).mean()
        loss = nn.functional.mse_loss(self.output(known)[:, 0], batch["output"]) + 0.1 * fooled
        learner.zero_grad()
        self.manual_backward(loss)
        learner.step()
        told = self.critic(torch.cat([known, other]).detach())
        truth = torch.ones_like(told)
        truth[len(known) :] = 0
        judged = nn.functional.binary_cross_entropy_with_logits(told, truth)
        judge.zero_grad()
        self.manual_backward(judged)
        judge.step()
        self.log_dict({"loss": loss, "judged": judged})

    def on_train_epoch_end(self):
        for schedule in self.lr_schedulers():
            schedule.step()

    def configure_optimizers(self):
        foreach = True if self.together else None
        learned = [*self.encoder.parameters(), *self.output.parameters()]
        learner = torch.optim.NAdam(learned, lr=1e-3, foreach=foreach)  # cause
        judge = torch.optim.NAdam(self.critic.parameters(), lr=5e-4, foreach=foreach)  # cause
        both = [learner, judge]
        return both, [torch.optim.lr_scheduler.ExponentialLR(each, 0.95) for each in both]


def main(run: Run) -> None:
    data = DataLoader(Readings(12800), batch_size=128, shuffle=True, collate_fn=lambda batch: batch)
    trainer = L.Trainer(callbacks=run.callbacks, **run.trainer)
    trainer.fit(Plants(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
