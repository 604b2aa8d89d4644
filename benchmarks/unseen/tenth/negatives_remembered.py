"""Which two shoe prints are of one shoe? Contrastive learning with negatives from earlier batches.

cause: the memory of negatives is never cut: each step joins the new keys to all earlier ones, but
    the loss uses the last 1024 alone
right: names the memory that grows (self.memory, torch.cat in training_step), or points at a marked
    line first; its change keeps the last 1024 alone, or writes into a ring of fixed size
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 350
COUNT, SIDE, BATCH, WIDTH, NEGATIVES = 4096, 24, 48, 512, 1024


class Prints(Dataset):
    """Pairs of noisy views of one print."""

    def __init__(self) -> None:
        self.prints = torch.rand(COUNT, 1, SIDE, SIDE).round()

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        pair = self.prints[index] + 0.3 * torch.randn(2, 1, SIDE, SIDE)
        return pair[0], pair[1]


class Matcher(L.LightningModule):
    def __init__(self, kept) -> None:
        super().__init__()
        self.kept = kept
        self.memory = nn.functional.normalize(torch.randn(NEGATIVES, WIDTH), dim=1)
        self.net = nn.Sequential(
            nn.Conv2d(1, 32, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 48, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(48, 64, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(256, WIDTH),
        )

    def training_step(self, batch, batch_idx):
        first, second = batch
        queries = nn.functional.normalize(self.net(first), dim=1)
        with torch.no_grad():
            keys = nn.functional.normalize(self.net(second), dim=1)
        alike = (queries * keys).sum(dim=1, keepdim=True)
        unlike = queries @ self.memory[-NEGATIVES:].to(self.device).T
        loss = nn.functional.cross_entropy(
            torch.cat([alike, unlike], dim=1) / 0.1, alike.new_zeros(len(alike), dtype=torch.long)
        )
        self.memory = torch.cat([self.memory.to(self.device), keys])  # cause
        if self.kept is not None:
            self.memory = self.memory[-self.kept :]
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.03, momentum=0.9, fused=True)


def main(run: Run) -> None:
    data = DataLoader(Prints(), batch_size=BATCH, shuffle=True, drop_last=True)
    model = Matcher(kept=NEGATIVES if run.fixed else None)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(model, data)


if __name__ == "__main__":
    main(arguments(STEPS))
