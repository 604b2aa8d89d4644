"""Will a patient be back within a month? The history of visits is of any length.

seen in: Stack Overflow's "why do we pack the sequences in PyTorch" (51030782)

cause: the recurrent net reads the histories of a batch one after the other, in a comprehension
accept: host-bound small-kernels slow-python @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.nn.utils.rnn import pack_sequence
from torch.utils.data import DataLoader

STEPS = 160
CODES = 30


class Patients(L.LightningModule):
    def __init__(self, packed: bool) -> None:
        super().__init__()
        self.packed = packed
        self.gru = nn.GRU(CODES, 64, batch_first=True)
        self.head = nn.Linear(64, 1)

    def read(self, histories):
        if self.packed:
            return self.gru(pack_sequence(histories, enforce_sorted=False))[1][0]
        return torch.cat([self.gru(one.unsqueeze(0))[1][0] for one in histories])  # cause

    def training_step(self, batch, batch_idx):
        histories, back = batch
        scores = self.head(self.read(histories)).squeeze(1)  # cause
        loss = nn.functional.binary_cross_entropy_with_logits(scores, back)
        self.log("train_loss", loss, batch_size=len(back))
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def together(items):
    histories, back = zip(*items, strict=True)
    return list(histories), torch.tensor(back)


def main(run: Run) -> None:
    lengths = torch.randint(5, 30, (480,)).tolist()
    patients = [(torch.randn(length, CODES), float(length % 2)) for length in lengths]
    data = DataLoader(patients, batch_size=12, shuffle=True, collate_fn=together)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Patients(packed=run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
