"""Where does the protein bind? Stretches of DNA as text, turned into numbers on their way.

cause: on_before_batch_transfer looks up every letter of every stretch in a dictionary
right: the batch-transfer hook; names on_before_batch_transfer (or a marked line); the change
    encodes once beforehand, or a whole stretch at once through its bytes, or in workers
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 350
STRETCHES, LENGTH, FACTORS = 800, 400, 4
ONE_HOT = {
    "A": [1.0, 0.0, 0.0, 0.0],
    "C": [0.0, 1.0, 0.0, 0.0],
    "G": [0.0, 0.0, 1.0, 0.0],
    "T": [0.0, 0.0, 0.0, 1.0],
}
BY_BYTE = np.zeros((256, 4), dtype=np.float32)
for letter, row in ONE_HOT.items():
    BY_BYTE[ord(letter)] = row


class Stretches(Dataset):
    def __init__(self) -> None:
        rng = np.random.default_rng(19)
        letters = rng.choice(list("ACGT"), size=(STRETCHES, LENGTH))
        self.stretches = ["".join(line) for line in letters]
        self.bound = rng.integers(2, size=(STRETCHES, FACTORS)).astype(np.float32)

    def __len__(self):
        return STRETCHES

    def __getitem__(self, index):
        return self.stretches[index], torch.from_numpy(self.bound[index])


class Binding(L.LightningModule):
    def __init__(self, by_byte: bool) -> None:
        super().__init__()
        self.by_byte = by_byte
        self.net = nn.Sequential(
            nn.Conv1d(4, 48, 15, padding=7),
            nn.ReLU(),
            nn.MaxPool1d(4),
            nn.Conv1d(48, 64, 7, padding=3),
            nn.ReLU(),
            nn.MaxPool1d(4),
            nn.Conv1d(64, 64, 5, padding=2),
            nn.ReLU(),
            nn.AdaptiveMaxPool1d(1),
            nn.Flatten(),
            nn.Linear(64, FACTORS),
        )

    def on_before_batch_transfer(self, batch, dataloader_idx):
        stretches, bound = batch
        if self.by_byte:
            codes = np.frombuffer("".join(stretches).encode(), dtype=np.uint8)
            encoded = torch.from_numpy(BY_BYTE[codes]).view(len(stretches), LENGTH, 4)
        else:
            encoded = torch.tensor(  # cause
                [[ONE_HOT[letter] for letter in stretch] for stretch in stretches]  # cause
            )
        return encoded.transpose(1, 2).contiguous(), bound

    def training_step(self, batch, batch_idx):
        stretches, bound = batch
        loss = nn.functional.binary_cross_entropy_with_logits(self.net(stretches), bound)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    data = DataLoader(Stretches(), batch_size=16, shuffle=True, drop_last=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Binding(by_byte=run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
