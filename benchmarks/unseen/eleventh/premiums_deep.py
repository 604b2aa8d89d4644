"""What should the policy cost? A deep and narrow residual network over a table.

cause: hundreds of small parameters, and AdamW goes through them one by one on the host
right: the optimizer's step; names it (or the marked line) and the many small parameters; the change
    is fused=True (or foreach=True)
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

STEPS = 400
POLICIES, COLUMNS, WIDTH, DEPTH = 30_000, 40, 64, 28


class Policies(Dataset):
    def __init__(self) -> None:
        self.columns = torch.randn(POLICIES, COLUMNS)
        self.claims = torch.poisson(self.columns[:, :4].sum(1).clamp(-3, 1).exp())

    def __len__(self):
        return POLICIES

    def __getitem__(self, indices):
        return self.columns[indices], self.claims[indices]


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.wide = nn.Linear(WIDTH, WIDTH)
        self.back = nn.Linear(WIDTH, WIDTH)

    def forward(self, hidden):
        return hidden + self.back(torch.relu(self.wide(self.norm(hidden))))


class Premiums(L.LightningModule):
    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.fused = fused
        self.net = nn.Sequential(
            nn.Linear(COLUMNS, WIDTH),
            *(Residual() for _ in range(DEPTH)),
            nn.LayerNorm(WIDTH),
            nn.Linear(WIDTH, 1),
        )

    def training_step(self, batch, batch_idx):
        columns, claims = batch
        rate = self.net(columns).squeeze(1)
        loss = nn.functional.poisson_nll_loss(rate, claims)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        decayed = [p for p in self.parameters() if p.ndim > 1]
        plain = [p for p in self.parameters() if p.ndim <= 1]
        groups = [{"params": decayed, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=5e-4, fused=self.fused)  # cause


def main(run: Run) -> None:
    policies = Policies()
    batches = BatchSampler(RandomSampler(policies), batch_size=256, drop_last=True)
    data = DataLoader(policies, sampler=batches, batch_size=None)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Premiums(fused=run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
