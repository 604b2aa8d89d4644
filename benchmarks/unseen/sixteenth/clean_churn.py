"""Will the customer leave? Sharpness-aware minimization on a table, clean.

Each step goes forward and backward twice, which is the method: once for the gradient that says
where the loss is steepest, once at the weights moved there. The moves are made for all weights at
once (foreach), and the second pass is the one that the optimizer follows.
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

STEPS = 200
ROWS, COLUMNS, BATCH, WIDTH, RADIUS = 80000, 64, 384, 320, 0.05


class Churn(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.net = nn.Sequential(
            nn.Linear(COLUMNS, WIDTH),
            nn.SiLU(),
            nn.Linear(WIDTH, WIDTH),
            nn.SiLU(),
            nn.Linear(WIDTH, WIDTH),
            nn.SiLU(),
            nn.Linear(WIDTH, 1),
        )

    def loss(self, rows, left):
        said = self.net(rows).squeeze(1)
        return nn.functional.binary_cross_entropy_with_logits(said, left)

    def training_step(self, batch, batch_idx):
        optimizer = self.optimizers()
        weights = list(self.parameters())
        optimizer.zero_grad()
        loss = self.loss(*batch)
        self.manual_backward(loss)
        with torch.no_grad():
            gradients = [weight.grad for weight in weights]
            norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
            moves = torch._foreach_mul(gradients, RADIUS / (norm + 1e-9))
            torch._foreach_add_(weights, moves)
        optimizer.zero_grad()
        self.manual_backward(self.loss(*batch))
        with torch.no_grad():
            torch._foreach_sub_(weights, moves)
        optimizer.step()
        self.log("train_loss", loss.detach())
        return {"loss": loss.detach()}

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    rows = torch.randn(ROWS, COLUMNS)
    left = (rows[:, :6].sum(dim=1) + torch.randn(ROWS) > 0).float()
    known = TensorDataset(rows, left)
    batches = BatchSampler(RandomSampler(known), BATCH, drop_last=True)
    data = DataLoader(known, sampler=batches, batch_size=None)
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Churn(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
