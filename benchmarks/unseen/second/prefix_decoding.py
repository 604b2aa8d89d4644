"""Transliteration: an encoder-decoder with exact match in validation.

cause: greedy decoding runs the decoder over the whole prefix again for every new character
accept: frequent-validation @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 400
LETTERS, LENGTH, START = 60, 32, 1


class Transliterator(L.LightningModule):
    def __init__(self, keep_state: bool) -> None:
        super().__init__()
        self.keep_state = keep_state
        self.embed = nn.Embedding(LETTERS, 64)
        self.encoder = nn.GRU(64, 96, batch_first=True)
        self.decoder = nn.GRU(64, 96, batch_first=True)
        self.head = nn.Linear(96, LETTERS)

    def encode(self, source):
        return self.encoder(self.embed(source))[1]

    def decode(self, source):
        state = self.encode(source)
        target = torch.full((len(source), 1), START)
        for _ in range(LENGTH):  # cause
            if self.keep_state:
                hidden, state = self.decoder(self.embed(target[:, -1:]), state)
            else:
                hidden, _ = self.decoder(self.embed(target), state)  # cause
            letter = self.head(hidden[:, -1:]).argmax(-1)  # cause
            target = torch.cat([target, letter], dim=1)  # cause
        return target[:, 1:]

    def training_step(self, batch, batch_idx):
        source, target = batch
        shifted = nn.functional.pad(target[:, :-1], (1, 0), value=START)
        hidden, _ = self.decoder(self.embed(shifted), self.encode(source))
        loss = nn.functional.cross_entropy(self.head(hidden).flatten(0, 1), target.flatten())
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        source, target = batch
        exact = (self.decode(source) == target).all(dim=1).float().mean()  # cause
        self.log("exact_match", exact)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def words(count: int) -> TensorDataset:
    source = torch.randint(2, LETTERS, (count, LENGTH))
    return TensorDataset(source, source.flip(1))


def main(run: Run) -> None:
    training = DataLoader(words(800), batch_size=16, shuffle=True)
    validation = DataLoader(words(96), batch_size=32)
    model = Transliterator(keep_state=run.fixed)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(model, training, validation)  # cause


if __name__ == "__main__":
    main(arguments(STEPS))
