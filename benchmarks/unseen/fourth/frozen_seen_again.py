"""Six kinds of wood by a small head upon a net that stays as it is.

seen in: vec2text/vec2text issue 20, "Question on frozen embeddings", and NVIDIA/Isaac-GR00T issue
483, "Offline backbone caching"

cause: the frozen net sees the same pictures, not augmented, in every epoch, and says the same
accept: recomputed-constant repeated-forward @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 180
KINDS, SIDE = 6, 40


def backbone():
    net = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 48, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(48, 64, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
    )
    return net.requires_grad_(False).eval()


class Woods(L.LightningModule):
    def __init__(self, frozen) -> None:
        super().__init__()
        self.frozen = frozen
        self.head = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, KINDS))

    def training_step(self, batch, batch_idx):
        pictures, kinds = batch
        with torch.no_grad():
            features = self.frozen(pictures)  # cause
        loss = nn.functional.cross_entropy(self.head(features), kinds)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.head.parameters(), lr=1e-3)


def main(run: Run) -> None:
    pictures, kinds = torch.randn(320, 3, SIDE, SIDE), torch.randint(KINDS, (320,))
    net = backbone()
    if run.fixed:  # asked once
        with torch.no_grad():
            pictures, net = torch.cat([net(some) for some in pictures.split(32)]), nn.Identity()
    data = DataLoader(TensorDataset(pictures, kinds), batch_size=8, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Woods(net), data)


if __name__ == "__main__":
    main(arguments(STEPS))
