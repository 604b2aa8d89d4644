"""Which rhythm is it? Twelve leads of an ECG through a bank of filters of several lengths.

cause: the recordings come as (time, lead) and are only viewed the other way round, so that each of
    the filters copies the transposed batch for itself, forward and backward
right: copies of a non-contiguous input (or the transpose); names the transpose in training_step,
    the bank of convolutions or a marked line; the change is .contiguous() once, or storing the
    recordings as (lead, time)
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

STEPS = 350
RECORDINGS, TIME, LEADS, RHYTHMS = 600, 1000, 12, 5
LENGTHS = (3, 5, 7, 9, 11, 15)


class Recordings(Dataset):
    """As the recorder writes them: one row of leads for each moment."""

    def __init__(self) -> None:
        self.rhythms = torch.randint(RHYTHMS, (RECORDINGS,))
        beats = torch.arange(TIME)[:, None] * (0.02 + 0.01 * self.rhythms[:, None, None])
        self.leads = torch.sin(beats) + 0.3 * torch.randn(RECORDINGS, TIME, LEADS)

    def __len__(self):
        return RECORDINGS

    def __getitem__(self, indices):
        return self.leads[indices], self.rhythms[indices]


class Bank(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.filters = nn.ModuleList(
            nn.Conv1d(LEADS, 6, length, stride=4, padding=length // 2) for length in LENGTHS
        )

    def forward(self, leads):
        return torch.cat([one(leads) for one in self.filters], dim=1)  # cause


class Rhythm(L.LightningModule):
    def __init__(self, copied_once: bool) -> None:
        super().__init__()
        self.copied_once = copied_once
        self.bank = Bank()
        self.net = nn.Sequential(
            nn.ReLU(),
            nn.Conv1d(6 * len(LENGTHS), 48, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv1d(48, 64, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.AdaptiveAvgPool1d(1),
            nn.Flatten(),
            nn.Linear(64, RHYTHMS),
        )

    def training_step(self, batch, batch_idx):
        leads, rhythms = batch
        leads = leads.transpose(1, 2)  # cause
        if self.copied_once:
            leads = leads.contiguous()
        loss = nn.functional.cross_entropy(self.net(self.bank(leads)), rhythms)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    recordings = Recordings()
    batches = BatchSampler(RandomSampler(recordings), batch_size=24, drop_last=True)
    data = DataLoader(recordings, sampler=batches, batch_size=None)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Rhythm(copied_once=run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
