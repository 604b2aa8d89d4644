"""Which mushroom? A new head on a network of convolutions that is not to change.

seen in: autogluon/autogluon pull request 3220, "Enable backbone freezing to boost finetuning speed"

cause: the backbone has the learning rate 0, so its gradients and its update are computed in vain
accept: unused-gradients @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 250
SIZE, KINDS = 48, 30


def backbone() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 24, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(24, 48, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(48, 64, 3, padding=1),
        nn.ReLU(),
    )


class Mushrooms(L.LightningModule):
    def __init__(self, freeze: bool) -> None:
        super().__init__()
        self.freeze = freeze
        self.backbone = backbone().requires_grad_(not freeze)  # cause
        self.head = nn.Sequential(
            nn.Conv2d(64, 64, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(256, KINDS),
        )

    def training_step(self, batch, batch_idx):
        images, kinds = batch
        loss = nn.functional.cross_entropy(self.head(self.backbone(images)), kinds)  # cause
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        if self.freeze:
            return torch.optim.Adam(self.head.parameters(), lr=1e-3)
        groups = [
            {"params": self.backbone.parameters(), "lr": 0.0},  # cause
            {"params": self.head.parameters()},
        ]
        return torch.optim.Adam(groups, lr=1e-3)  # cause


def main(run: Run) -> None:
    images = TensorDataset(torch.rand(960, 3, SIZE, SIZE), torch.randint(KINDS, (960,)))
    data = DataLoader(images, batch_size=16, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Mushrooms(freeze=run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
