"""Where in the cell does a protein live? Sequences of like length in a batch, a small encoder.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler

STEPS = 300
LETTERS, PLACES, BATCH, WIDTH, LONGEST = 26, 10, 16, 96, 160


class Proteins(Dataset):
    """Letters of all sequences end to end, and where each one starts."""

    def __init__(self, number: int) -> None:
        self.lengths = torch.randint(40, LONGEST, (number,))
        self.starts = self.lengths.cumsum(0) - self.lengths
        self.letters = torch.randint(1, LETTERS, (int(self.lengths.sum()),))
        self.places = torch.randint(PLACES, (number,))

    def __getitem__(self, numbers):
        """Return the batch of these sequences, padded with zeros to the longest of them."""
        lengths, starts = self.lengths[numbers], self.starts[numbers]
        columns = torch.arange(int(lengths.max()))
        inside = columns < lengths[:, None]
        rows = (starts[:, None] + columns).clamp(max=len(self.letters) - 1)
        return self.letters[rows] * inside, inside, self.places[numbers]


class LikeLengths(Sampler):
    """Batches of neighbours by length, in a new order in each epoch."""

    def __init__(self, lengths) -> None:
        self.lengths = lengths

    def __len__(self) -> int:
        return len(self.lengths) // BATCH

    def __iter__(self):
        order = (self.lengths + 8 * torch.rand(len(self.lengths))).argsort()
        batches = order[: len(self) * BATCH].view(-1, BATCH)
        yield from batches[torch.randperm(len(batches))]


class Locations(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(LETTERS, WIDTH, padding_idx=0)
        self.places = nn.Embedding(LONGEST, WIDTH)
        layer = nn.TransformerEncoderLayer(
            WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, PLACES)

    def training_step(self, batch, batch_idx):
        letters, inside, places = batch
        states = self.letters(letters) + self.places.weight[: letters.shape[1]]
        states = self.encoder(states, src_key_padding_mask=~inside)
        inside = inside[..., None]
        pooled = (states * inside).sum(dim=1) / inside.sum(dim=1)
        loss = nn.functional.cross_entropy(self.head(pooled), places)
        self.log("train_loss", loss, batch_size=len(letters))
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-4, fused=True)


def main(run: Run) -> None:
    proteins = Proteins(3200)
    data = DataLoader(proteins, sampler=LikeLengths(proteins.lengths), batch_size=None)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Locations(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
