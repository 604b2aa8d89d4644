"""Which letter comes next? A small language model over one long text, clean."""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 150
LETTERS, LENGTH, TEXT, BATCH, WIDTH = 96, 64, 200_000, 12, 128


class Text(Dataset):
    def __init__(self) -> None:
        self.text = (torch.arange(TEXT) * 7 + torch.randint(0, 3, (TEXT,))) % LETTERS

    def __len__(self):
        return TEXT // LENGTH - 1

    def __getitem__(self, index):
        start = index * LENGTH
        return self.text[start : start + LENGTH + 1]


class Speller(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(LETTERS, WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(
            WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(WIDTH, LETTERS)
        mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)
        self.register_buffer("mask", mask, persistent=False)

    def training_step(self, text, batch_idx):
        seen, following = text[:, :-1], text[:, 1:]
        hidden = self.encoder(self.letters(seen) + self.places, mask=self.mask, is_causal=True)
        loss = nn.functional.cross_entropy(self.out(hidden).flatten(0, 1), following.flatten())
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=5e-4, fused=True)


def main(run: Run) -> None:
    data = DataLoader(Text(), batch_size=BATCH, shuffle=True, drop_last=True)
    trainer = L.Trainer(callbacks=run.callbacks, gradient_clip_val=1.0, **run.trainer)
    trainer.fit(Speller(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
