"""Which syllable does a canary sing? Every frame of a spectrogram gets a label, window by window.

report: vocalpy/vak issue 164, "validation step runs on all possible windows" ("every possible window
    obtained with a stride of 1 across all spectrograms in the validation set ... takes too long")
cause: the held-out song is cut into windows that start one frame apart: each frame is scored 60
    times in each validation
right: validation takes most of the run (more than training), as its data set has thousands of
    windows that overlap; the change is a step of a window's length (a marked line), or fewer or
    smaller validations (limit_val_batches, check_val_every_n_epoch)
The mended form trains alike; its error of validation counts each frame once.
"""

import torch
from case import Items, Run, Supervised
from torch import nn
from torch.utils.data import DataLoader

STEPS, WINDOW, BANDS, SYLLABLES = 180, 60, 64, 25


class Windows(Items):
    """Windows of a song, `step` frames apart."""

    def __init__(self, song, labels, step):
        super().__init__(song)
        self.labels, self.step = labels, step

    def __len__(self):
        return (len(self.items) - WINDOW) // self.step + 1

    def __getitem__(self, index):
        frames = slice(index * self.step, index * self.step + WINDOW)
        return self.items[frames], self.labels[frames]


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(BANDS, 48, batch_first=True, bidirectional=True)
        self.head = nn.Linear(96, SYLLABLES)

    def forward(self, song):
        return self.head(self.rnn(song)[0]).flatten(0, 1)


class Canary(Supervised):
    def loss(self, batch):
        return self.criterion(self.net(batch[0]), batch[1].flatten())

    def validation_step(self, batch, batch_idx):
        wrong = self.net(batch[0]).argmax(1) != batch[1].flatten()
        self.log("frame_error", wrong.float().mean())


def main(run: Run) -> None:
    song, labels = torch.randn(6000, BANDS), torch.randint(SYLLABLES, (6000,))
    train = Windows(song[:3000], labels[:3000], 2)
    held = Windows(song[3000:], labels[3000:], WINDOW if run.fixed else 1)  # cause
    loaders = DataLoader(train, 32, shuffle=True), DataLoader(held, 32)
    run.fit(Canary(Tagger()), *loaders, num_sanity_val_steps=0)
