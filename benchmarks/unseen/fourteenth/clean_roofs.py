"""Which pixels are roofs? A segmentation net over aerial photographs, one worker, clean."""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 150
COUNT, BATCH, SIDE = 600, 4, 64


class Roofs(Dataset):
    def __init__(self) -> None:
        self.roofs = torch.zeros(COUNT, SIDE, SIDE, dtype=torch.uint8)
        for roof in self.roofs:
            top, left = torch.randint(0, SIDE - 24, (2,)).tolist()
            roof[top : top + 20, left : left + 24] = 1
        self.photographs = torch.randint(0, 180, (COUNT, 3, SIDE, SIDE), dtype=torch.uint8)
        self.photographs += 60 * self.roofs[:, None]

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        photograph, roof = self.photographs[index].float() / 255, self.roofs[index].float()
        if torch.rand(()) < 0.5:
            photograph, roof = photograph.flip(2), roof.flip(1)
        return photograph, roof


def conv(inside, outside):
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, padding=1, bias=False),
        nn.BatchNorm2d(outside),
        nn.ReLU(inplace=True),
    )


class Segmenter(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.enter = conv(3, 24)
        self.deep = nn.Sequential(nn.MaxPool2d(2), conv(24, 48), conv(48, 48))
        self.up = nn.ConvTranspose2d(48, 24, 2, stride=2)
        self.leave = nn.Conv2d(24, 1, 1)

    def training_step(self, batch, batch_idx):
        photographs, roofs = batch
        wide = self.enter(photographs)
        guessed = self.leave(wide + self.up(self.deep(wide))).squeeze(1)
        loss = nn.functional.binary_cross_entropy_with_logits(guessed, roofs)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    data = DataLoader(
        Roofs(), batch_size=BATCH, shuffle=True, num_workers=1, persistent_workers=True
    )
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Segmenter(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
