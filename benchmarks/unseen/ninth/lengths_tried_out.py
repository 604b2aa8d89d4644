"""Syllables of speech, shortest recordings first, each batch as long as its longest.

seen in: pytorch/pytorch issue 2759, "Variable input size training is slow", pytorch/vision pull
5985, "Fix regression on Detection training script", and hpcaitech/ColossalAI pull 1063

cause: Trainer(benchmark=True) has cuDNN try out algorithms for each convolution whenever a batch
    comes with a length not seen before, and with batches sorted by length new ones keep coming
right: says that cuDNN's benchmark mode (or trying algorithms out, or shapes that change) makes some
    steps slow; its change is benchmark=False, or few fixed lengths
"""

import lightning as L
import torch
from case import Run, arguments, sized
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 96
BATCH, WIDTH, HIDDEN, LAYERS = sized((32, 128, 256, 4), (2, 8, 16, 1))
BANDS, KINDS, SAME = 80, 60, 8
SHORTEST, STEP = sized((160, 20), (32, 4))  # frames of 10 ms


class Recordings(Dataset):
    """Batches of recordings by length: `SAME` batches of each, then longer ones."""

    def __init__(self) -> None:
        self.sound = torch.rand(60_000, BANDS)
        self.starts = torch.randint(50_000, (STEPS, BATCH)).tolist()

    def __len__(self):
        return STEPS

    def __getitem__(self, number):
        frames = SHORTEST + STEP * (number // SAME)
        clips = [self.sound[start : start + frames] for start in self.starts[number]]
        return torch.stack(clips), torch.tensor(self.starts[number]) % KINDS


class Syllables(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.subsample = nn.Sequential(
            nn.Conv2d(1, WIDTH, 3, 2), nn.ReLU(), nn.Conv2d(WIDTH, WIDTH, 3, 2), nn.ReLU()
        )
        self.subsample.to(memory_format=torch.channels_last)
        self.into = nn.Linear(WIDTH * (((BANDS - 1) // 2 - 1) // 2), HIDDEN)
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(
                HIDDEN, 4, 4 * HIDDEN, dropout=0.0, batch_first=True, norm_first=True
            ),
            LAYERS,
            enable_nested_tensor=False,
        )
        self.out = nn.Linear(HIDDEN, KINDS)

    def training_step(self, batch, batch_idx):
        clips, kinds = batch
        x = self.subsample(clips[:, None])
        x = self.encoder(self.into(x.transpose(1, 2).flatten(2)))
        loss = nn.functional.cross_entropy(self.out(x.mean(dim=1)), kinds)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-4, fused=True)


def main(run: Run) -> None:
    batches = DataLoader(Recordings(), batch_size=None, num_workers=2, pin_memory=True)
    trainer = L.Trainer(
        precision="bf16-mixed",
        enable_checkpointing=False,
        benchmark=not run.fixed,  # cause
        callbacks=run.callbacks,
        **run.trainer,
    )
    trainer.fit(Syllables(), batches)


if __name__ == "__main__":
    main(arguments(STEPS))
