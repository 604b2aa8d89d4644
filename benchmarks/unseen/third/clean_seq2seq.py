"""Dates in words to dates in digits: encoder and decoder with the right letters fed in.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

STEPS = 300
LETTERS, DIGITS, LONGEST, ANSWER, WIDTH = 40, 12, 28, 10, 112


class Dates(Dataset):
    """Whole batches of padded lines, cut to the longest of the batch."""

    def __init__(self, count: int) -> None:
        self.lengths = torch.randint(12, LONGEST + 1, (count,))
        self.letters = torch.randint(1, LETTERS, (count, LONGEST))
        self.answers = torch.randint(1, DIGITS, (count, ANSWER))

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, picked: list[int]):
        lengths = self.lengths[picked]
        return self.letters[picked, : int(lengths.max())], lengths, self.answers[picked]


class Dating(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.letter, self.digit = nn.Embedding(LETTERS, 48), nn.Embedding(DIGITS, 48)
        self.encoder = nn.GRU(48, WIDTH, batch_first=True)
        self.decoder = nn.GRU(48, WIDTH, batch_first=True)
        self.out = nn.Linear(WIDTH, DIGITS)

    def loss(self, batch):
        letters, lengths, answers = batch
        packed = pack_padded_sequence(
            self.letter(letters), lengths, batch_first=True, enforce_sorted=False
        )
        _, state = self.encoder(packed)
        before = nn.functional.pad(answers[:, :-1], (1, 0))
        scores = self.out(self.decoder(self.digit(before), state)[0])
        return nn.functional.cross_entropy(scores.mT, answers)

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.loss(batch), batch_size=len(batch[0]))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=2e-3)


def loader(dates: Dates) -> DataLoader:
    picks = BatchSampler(RandomSampler(dates), 64, drop_last=True)
    return DataLoader(dates, sampler=picks, batch_size=None)


def main(run: Run) -> None:
    trainer = L.Trainer(callbacks=run.callbacks, gradient_clip_val=1.0, **run.trainer)
    trainer.fit(Dating(), loader(Dates(12_800)), loader(Dates(256)))


if __name__ == "__main__":
    main(arguments(STEPS))
