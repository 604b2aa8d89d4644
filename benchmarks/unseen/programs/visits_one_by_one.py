"""Will a patient be back within a month? The history of visits is of any length.

Seen in Stack Overflow's "why do we pack the sequences in PyTorch" (51030782).

cause: the recurrent net reads the histories of a batch one after the other, in a comprehension
accept: host-bound small-kernels slow-python @line
"""

import torch
from case import Module, Run, yes_or_no
from torch import nn
from torch.nn.utils.rnn import pack_sequence
from torch.utils.data import DataLoader

STEPS, CODES = 160, 30


class Patients(Module):
    def __init__(self, packed):
        super().__init__()
        self.packed = packed
        self.gru, self.head = nn.GRU(CODES, 64, batch_first=True), nn.Linear(64, 1)

    def read(self, histories):
        if self.packed:
            return self.gru(pack_sequence(histories, enforce_sorted=False))[1][0]
        return torch.cat([self.gru(one.unsqueeze(0))[1][0] for one in histories])  # cause

    def loss(self, batch):
        return yes_or_no(self.head(self.read(batch[0])), batch[1])  # cause


def together(items):
    histories, back = zip(*items, strict=True)
    return list(histories), torch.tensor(back)


def main(run: Run) -> None:
    lengths = torch.randint(5, 30, (480,)).tolist()
    patients = [(torch.randn(length, CODES), float(length % 2)) for length in lengths]
    data = DataLoader(patients, batch_size=12, shuffle=True, collate_fn=together)
    run.fit(Patients(packed=run.fixed), data)
