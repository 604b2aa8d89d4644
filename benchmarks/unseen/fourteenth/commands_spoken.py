"""Which command was spoken? A small net over spectrograms that a worker makes; epochs are short.

cause: the loader's worker is ended and started anew with each epoch (persistent_workers is left
    out), and an epoch has only twelve steps
right: names the workers' start at each epoch (the loader, or the wait for an epoch's first batch);
    its change is persistent_workers=True (or longer epochs, or no worker)
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 180
COUNT, BATCH, SAMPLES, COMMANDS = 192, 16, 8000, 10


class Spoken(Dataset):
    def __init__(self) -> None:
        self.commands = torch.randint(0, COMMANDS, (COUNT,))
        at = torch.arange(SAMPLES) / SAMPLES
        self.waves = torch.sin(at * 600 * (1 + self.commands[:, None]))
        self.waves += 0.3 * torch.randn(COUNT, SAMPLES)
        self.window = torch.hann_window(256)

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        found = torch.stft(
            self.waves[index], 256, hop_length=128, window=self.window, return_complex=True
        )
        return found.abs().log1p(), self.commands[index]


class Listener(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(129, 192, 3, padding=1),
            nn.ReLU(),
            nn.Conv1d(192, 192, 3, padding=1),
            nn.ReLU(),
            nn.Conv1d(192, 192, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool1d(1),
            nn.Flatten(),
            nn.Linear(192, COMMANDS),
        )

    def training_step(self, batch, batch_idx):
        seen, commands = batch
        loss = nn.functional.cross_entropy(self.net(seen), commands)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    data = DataLoader(  # cause
        Spoken(),
        batch_size=BATCH,
        shuffle=True,
        num_workers=1,
        persistent_workers=run.fixed,
    )
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Listener(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
