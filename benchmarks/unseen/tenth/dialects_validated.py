"""Where does the speaker come from? A convolutional net over mel frames of short phrases.

cause: the phrases are few, so an epoch has 24 steps, and the whole validation set is run each time
right: names the validation (its frequency or share of the run), or points at the marked line first;
    its change validates less often (check_val_every_n_epoch, val_check_interval) or on less
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 360
PHRASES, HELD_OUT, BATCH = 384, 448, 16
MELS, FRAMES, REGIONS = 40, 120, 9


class Dialects(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(MELS, 96, 5, padding=2),
            nn.BatchNorm1d(96),
            nn.ReLU(),
            nn.Conv1d(96, 128, 5, stride=2, padding=2),
            nn.BatchNorm1d(128),
            nn.ReLU(),
            nn.Conv1d(128, 128, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool1d(1),
            nn.Flatten(),
            nn.Dropout(0.2),
            nn.Linear(128, REGIONS),
        )

    def training_step(self, batch, batch_idx):
        frames, regions = batch
        loss = nn.functional.cross_entropy(self.net(frames), regions, label_smoothing=0.1)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        frames, regions = batch
        guessed = self.net(frames)
        self.log("val_loss", nn.functional.cross_entropy(guessed, regions))
        self.log("val_accuracy", (guessed.argmax(dim=1) == regions).float().mean())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def phrases(count):
    regions = torch.randint(0, REGIONS, (count,))
    accents = torch.randn(REGIONS, MELS, 1, generator=torch.Generator().manual_seed(5))
    return TensorDataset(torch.randn(count, MELS, FRAMES) + 0.3 * accents[regions], regions)


def main(run: Run) -> None:
    train = DataLoader(phrases(PHRASES), batch_size=BATCH, shuffle=True)
    held_out = DataLoader(phrases(HELD_OUT), batch_size=BATCH)
    trainer = L.Trainer(
        callbacks=run.callbacks,
        enable_checkpointing=False,
        num_sanity_val_steps=0,
        check_val_every_n_epoch=15 if run.fixed else 1,  # cause
        **run.trainer,
    )
    trainer.fit(Dialects(), train, held_out)


if __name__ == "__main__":
    main(arguments(STEPS))
