"""Which drug does the note prescribe? Convolutions over the letters of notes of uneven length.

cause: the collate_fn, which runs in the worker, sets each letter of the batch's tensor on its own
right: names the loop over letters in padded() as the worker's cost; the change is pad_sequence
accept: data-wait @line
"""

import torch
from case import Module, Run
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

STEPS, COUNT, BATCH, LETTERS, DRUGS = 340, 2400, 48, 64, 20


def padded(samples):
    notes, drugs = zip(*samples, strict=True)
    letters = torch.zeros(len(notes), max(len(note) for note in notes), dtype=torch.long)
    for row, note in enumerate(notes):
        for column, letter in enumerate(note):  # cause
            letters[row, column] = letter  # cause
    return letters, torch.tensor(drugs)


def padded_at_once(samples):
    notes, drugs = zip(*samples, strict=True)
    return pad_sequence(list(notes), batch_first=True), torch.tensor(drugs)


class Reader(Module):
    fused = True

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(LETTERS, 32, padding_idx=0)
        self.near = nn.Conv1d(32, 40, 5, stride=2, padding=2)
        self.far = nn.Conv1d(40, 64, 5, stride=2, padding=2)
        self.out = nn.Linear(64, DRUGS)

    def loss(self, batch):
        near = torch.relu(self.near(self.embedding(batch[0]).transpose(1, 2)))
        guessed = self.out(torch.relu(self.far(near)).amax(dim=2))
        return nn.functional.cross_entropy(guessed, batch[1])


def main(run: Run) -> None:
    lengths = torch.randint(80, 240, (COUNT,)).tolist()
    notes = [(torch.randint(1, LETTERS, (n,)), n % DRUGS) for n in lengths]
    collate = padded_at_once if run.fixed else padded  # cause
    stay = {"num_workers": 1, "persistent_workers": True, "collate_fn": collate}
    data = DataLoader(notes, batch_size=BATCH, shuffle=True, **stay)
    run.fit(Reader(), data, enable_checkpointing=False)
