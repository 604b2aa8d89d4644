"""Salt under the sea floor: masks of seismic images, and how many bodies were found.

seen in: Lightning-AI/pytorch-lightning issue 3050, "The speed of training is slow": connected
parts are counted in each training step

cause: a callback counts connected parts of the masks pixel by pixel, in Python, after every batch
accept: slow-callback slow-python @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 250
SIZE = 40


def bodies(mask: list[list[bool]]) -> int:
    """Return how many connected parts a mask has."""
    left = {(y, x) for y, row in enumerate(mask) for x, salt in enumerate(row) if salt}  # cause
    count = 0
    while left:  # cause
        count += 1  # cause
        edge = [left.pop()]  # cause
        while edge:  # cause
            y, x = edge.pop()  # cause
            for place in ((y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)):  # cause
                if place in left:  # cause
                    left.remove(place)  # cause
                    edge.append(place)  # cause
    return count


class BodiesFound(L.Callback):
    def __init__(self, every_n_steps: int) -> None:
        self.every_n_steps = every_n_steps

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if trainer.global_step % self.every_n_steps == 0:
            masks = outputs["masks"][:3].tolist()
            pl_module.log("bodies", float(sum(bodies(mask) for mask in masks)))  # cause


class Salt(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 24, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(24, 24, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(24, 1, 3, padding=1),
        )

    def training_step(self, batch, batch_idx):
        images, masks = batch
        scores = self.net(images).squeeze(1)
        loss = nn.functional.binary_cross_entropy_with_logits(scores, masks)
        self.log("train_loss", loss)
        return {"loss": loss, "masks": scores.detach() > 0}

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    images = torch.rand(800, 1, SIZE, SIZE)
    data = DataLoader(TensorDataset(images, (images[:, 0] > 0.5).float()), 16, shuffle=True)
    callbacks = [BodiesFound(every_n_steps=50 if run.fixed else 1), *run.callbacks]
    L.Trainer(callbacks=callbacks, **run.trainer).fit(Salt(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
