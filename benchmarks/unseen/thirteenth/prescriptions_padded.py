"""Which drug does the note prescribe? Convolutions over the letters of notes of uneven length.

cause: the loader's collate_fn, which runs in the worker, pads the notes letter by letter: it sets
    each element of the batch's tensor on its own
right: names the loop over letters in padded() (the collate_fn) as what the worker spends its time
    on; its change is pad_sequence, or one copy a row; more workers is second best
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

STEPS = 340
COUNT, BATCH, LETTERS, DRUGS = 2400, 48, 64, 20


class Notes(Dataset):
    def __init__(self) -> None:
        lengths = torch.randint(80, 240, (COUNT,)).tolist()
        self.drugs = torch.randint(0, DRUGS, (COUNT,)).tolist()
        self.notes = [torch.randint(1, LETTERS, (length,)) for length in lengths]
        for note, drug in zip(self.notes, self.drugs, strict=True):
            note[10:30] = drug + 1

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        return self.notes[index], self.drugs[index]


def padded(samples):
    notes = [note for note, _ in samples]
    drugs = torch.tensor([drug for _, drug in samples])
    letters = torch.zeros(len(notes), max(len(note) for note in notes), dtype=torch.long)
    for row, note in enumerate(notes):
        for column, letter in enumerate(note):  # cause
            letters[row, column] = letter  # cause
    return letters, drugs


def padded_at_once(samples):
    notes, drugs = zip(*samples, strict=True)
    return pad_sequence(list(notes), batch_first=True), torch.tensor(drugs)


class Reader(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(LETTERS, 32, padding_idx=0)
        self.near = nn.Conv1d(32, 40, 5, stride=2, padding=2)
        self.far = nn.Conv1d(40, 64, 5, stride=2, padding=2)
        self.out = nn.Linear(64, DRUGS)

    def training_step(self, batch, batch_idx):
        letters, drugs = batch
        near = torch.relu(self.near(self.embedding(letters).transpose(1, 2)))
        guessed = self.out(torch.relu(self.far(near)).amax(dim=2))
        loss = nn.functional.cross_entropy(guessed, drugs)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    data = DataLoader(
        Notes(),
        batch_size=BATCH,
        shuffle=True,
        num_workers=1,
        persistent_workers=True,
        collate_fn=padded_at_once if run.fixed else padded,  # cause
    )
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Reader(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
