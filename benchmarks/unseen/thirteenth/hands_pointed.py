"""Where are the joints of the hand? Convolutions that point at each with a heat map.

cause: training_step draws the heat map of each joint of each hand on its own, in Python, although
    a hand's maps are the same in each epoch and belong in the dataset
right: names the drawing of the maps in training_step (heat_map); its change is to draw them once in
    the dataset (or for the whole batch at once)
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 360
COUNT, BATCH, SIDE, JOINTS = 480, 12, 48, 21


def heat_map(joint):
    """Return a picture with a round spot at the joint."""
    places = torch.arange(SIDE)
    down = torch.exp(-((places - joint[0]) ** 2) / 8)  # cause
    across = torch.exp(-((places - joint[1]) ** 2) / 8)  # cause
    return torch.outer(down, across)  # cause


def heat_maps(hands):
    """Return the heat maps of some hands' joints."""
    maps = [heat_map(joint) for hand in hands for joint in hand]  # cause
    return torch.stack(maps).view(*hands.shape[:2], SIDE, SIDE)


class Pointer(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 16, 5, padding=2),
            nn.ReLU(),
            nn.Conv2d(16, 16, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, JOINTS, 3, padding=1),
        ).to(memory_format=torch.channels_last)

    def training_step(self, batch, batch_idx):
        pictures, targets = batch
        if targets.dim() == 3:
            targets = heat_maps(targets)  # cause
        loss = nn.functional.mse_loss(self.net(pictures), targets)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def hands(fixed):
    joints = SIDE * torch.rand(COUNT, JOINTS, 2)
    pictures = 0.1 * torch.randn(COUNT, 1, SIDE, SIDE)
    rows, columns = joints.long().unbind(dim=2)
    pictures[torch.arange(COUNT)[:, None], 0, rows, columns] += 1
    return TensorDataset(pictures, heat_maps(joints) if fixed else joints)


def main(run: Run) -> None:
    data = DataLoader(hands(run.fixed), batch_size=BATCH, shuffle=True)
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Pointer(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
