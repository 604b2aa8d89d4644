"""Is the part good? Camera pictures of castings, each guess noted for the people of the line.

cause: training_step reads the probability, the label and the loss of every part on their own with
    .item() and writes them out line by line, flushed
right: reading values on the host / writing in training_step; names the .item() calls, the write or
    note_parts (a marked line); the change reads the whole batch at once (.tolist()), or notes them
    less often or not at all
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 400
PARTS, SIDE = 960, 48


class Castings(L.LightningModule):
    def __init__(self, notes, whole: bool) -> None:
        super().__init__()
        self.notes, self.whole = notes, whole
        self.net = nn.Sequential(
            nn.Conv2d(1, 16, 3, stride=2, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(64, 1),
        )

    def on_train_start(self):
        self.notes.parent.mkdir(parents=True, exist_ok=True)
        self.file = self.notes.open("w")

    def on_train_end(self):
        self.file.close()

    def note_parts(self, numbers, guessed, bad, losses):
        if self.whole:
            rows = torch.stack([guessed.sigmoid(), bad, losses], dim=1).tolist()
            for number, (chance, label, loss) in zip(numbers.tolist(), rows, strict=True):
                self.file.write(f"{number}\t{chance:.4f}\t{label:.0f}\t{loss:.5f}\n")
            return
        for i in range(len(numbers)):
            chance = torch.sigmoid(guessed[i]).item()  # cause
            label, loss = bad[i].item(), losses[i].item()  # cause
            self.file.write(
                f"{numbers[i].item()}\t{chance:.4f}\t{label:.0f}\t{loss:.5f}\n"
            )  # cause
            self.file.flush()  # cause

    def training_step(self, batch, batch_idx):
        pictures, bad, numbers = batch
        guessed = self.net(pictures).squeeze(1)
        losses = nn.functional.binary_cross_entropy_with_logits(guessed, bad, reduction="none")
        self.note_parts(numbers, guessed.detach(), bad, losses.detach())  # cause
        loss = losses.mean()
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    bad = (torch.rand(PARTS) < 0.3).float()
    pictures = torch.rand(PARTS, 1, SIDE, SIDE)
    pictures[:, :, 20:26, 20:26] += bad[:, None, None, None]
    parts = TensorDataset(pictures, bad, torch.arange(PARTS))
    data = DataLoader(parts, batch_size=64, shuffle=True, drop_last=True)
    module = Castings(run.root / "parts.tsv", whole=run.fixed)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(module, data)


if __name__ == "__main__":
    main(arguments(STEPS))
