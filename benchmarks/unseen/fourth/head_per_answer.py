"""Forty yes-or-no answers about a face: hat, glasses, smile.

seen in: hearai/hearai pull request 86 and SooLab/Plain-Det issue 2: one more head for each question

cause: every answer has a small head of its own, called and scored in turn
accept: separate-layers host-bound small-kernels @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 160
ANSWERS, WIDTH, HIDDEN, SIDE = 40, 64, 24, 32


class Heads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1))
            for _ in range(ANSWERS)
        )

    def forward(self, features, answers):
        losses = [
            nn.functional.binary_cross_entropy_with_logits(
                head(features).squeeze(1), answer
            )  # cause
            for head, answer in zip(self.heads, answers.unbind(1), strict=True)  # cause
        ]
        return torch.stack(losses).mean()


class Together(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(WIDTH, ANSWERS * HIDDEN)
        self.weight = nn.Parameter(torch.randn(ANSWERS, HIDDEN) / HIDDEN**0.5)
        self.bias = nn.Parameter(torch.zeros(ANSWERS))

    def forward(self, features, answers):
        hidden = self.hidden(features).relu().unflatten(1, (ANSWERS, HIDDEN))
        scores = (hidden * self.weight).sum(-1) + self.bias
        return nn.functional.binary_cross_entropy_with_logits(scores, answers)


class Faces(L.LightningModule):
    def __init__(self, heads) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv2d(3, 24, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(24, WIDTH, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.heads = heads

    def training_step(self, batch, batch_idx):
        faces, answers = batch
        loss = self.heads(self.trunk(faces), answers)  # cause
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    faces = torch.randn(960, 3, SIDE, SIDE)
    answers = torch.randint(2, (960, ANSWERS)).float()
    data = DataLoader(TensorDataset(faces, answers), batch_size=24, shuffle=True)
    model = Faces(Together() if run.fixed else Heads())
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(model, data)


if __name__ == "__main__":
    main(arguments(STEPS))
