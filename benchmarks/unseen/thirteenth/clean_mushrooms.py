"""Is the mushroom edible? A small net over photographs that one worker turns and flips, clean."""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 340
COUNT, BATCH, SIDE = 1360, 8, 56


class Mushrooms(Dataset):
    def __init__(self) -> None:
        self.edible = torch.randint(0, 2, (COUNT,))
        self.photographs = torch.randint(0, 160, (COUNT, 3, SIDE, SIDE), dtype=torch.uint8)
        self.photographs[:, 0, 10:40, 10:40] += (50 * self.edible).to(torch.uint8)[:, None, None]

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        photograph = self.photographs[index].float() / 255
        if torch.rand(()) < 0.5:
            photograph = photograph.flip(2)
        turned = torch.rot90(photograph, int(torch.randint(0, 4, ())), (1, 2))
        return turned, self.edible[index]


def block(inside, outside):
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, padding=1, bias=False),
        nn.BatchNorm2d(outside),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
    )


class Classifier(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            block(3, 24),
            block(24, 48),
            block(48, 96),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(96, 2),
        ).to(memory_format=torch.channels_last)

    def training_step(self, batch, batch_idx):
        photographs, edible = batch
        loss = nn.functional.cross_entropy(self.net(photographs), edible)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.02, momentum=0.9, fused=True)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, self.trainer.max_steps)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }


def main(run: Run) -> None:
    data = DataLoader(
        Mushrooms(),
        batch_size=BATCH,
        shuffle=True,
        num_workers=1,
        persistent_workers=True,
    )
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Classifier(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
