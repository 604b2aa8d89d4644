"""Which text describes the stamp? Pictures and texts are drawn together by a contrastive loss.

cause: a checkpoint is written every four steps, each with all weights, among them the large word
    table of the frozen text encoder
right: names the checkpoints (ModelCheckpoint, every_n_train_steps); its change is to write them
    less often (or to leave the frozen weights out of them)
"""

import lightning as L
import torch
from case import Run, arguments
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 160
COUNT, BATCH, SIDE = 1280, 40, 32
WORDS, LENGTH, WIDTH = 40000, 10, 128


class Stamps(Dataset):
    def __init__(self) -> None:
        self.texts = torch.randint(0, WORDS, (COUNT, LENGTH))
        self.pictures = 0.3 * torch.randn(COUNT, 3, SIDE, SIDE)
        self.pictures += torch.sin(self.texts[:, :3].float())[:, :, None, None]

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        return self.pictures[index], self.texts[index]


class Matcher(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH).requires_grad_(False)
        self.read = nn.Linear(WIDTH, 64)
        self.look = nn.Sequential(
            nn.Conv2d(3, 24, 3, padding=1, stride=2),
            nn.ReLU(),
            nn.Conv2d(24, 48, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(48, 64, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(64, 64),
        )
        self.scale = nn.Parameter(torch.tensor(2.0))

    def training_step(self, batch, batch_idx):
        pictures, texts = batch
        seen = nn.functional.normalize(self.look(pictures), dim=1)
        read = nn.functional.normalize(self.read(self.words(texts).mean(dim=1)), dim=1)
        alike = self.scale.exp() * seen @ read.T
        own = torch.arange(len(alike), device=alike.device)
        both = nn.functional.cross_entropy(alike, own) + nn.functional.cross_entropy(alike.T, own)
        self.log("train_loss", both / 2)
        return both / 2

    def configure_optimizers(self):
        trained = [p for p in self.parameters() if p.requires_grad]
        return torch.optim.AdamW(trained, lr=1e-3, fused=True)


def main(run: Run) -> None:
    data = DataLoader(Stamps(), batch_size=BATCH, shuffle=True)
    every = 80 if run.fixed else 4
    kept = ModelCheckpoint(every_n_train_steps=every)  # cause
    L.Trainer(callbacks=[kept, *run.callbacks], **run.trainer).fit(Matcher(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
