"""Keys on a keyboard by their sound; 480 clips, of which an epoch is over in a moment.

report: Lightning-AI/pytorch-lightning issue 10389, "Lightning is very slow between epochs, compared
    to Pytorch." (also boreshkinai/delta-interpolator pull request 3: "You lose around 10 seconds
    because of the worker reset at the start of each epoch")
cause: both loaders stop their workers at the end of an epoch and start new ones for the next: with
    ten batches an epoch, much of the time goes between the epochs
right: the time between epochs (the first batch of each, the start of worker processes, the loaders
    without persistent_workers); the change is persistent_workers=True, or no workers at all
The mended form shuffles differently from the second epoch on: the loader draws fewer seeds.
"""

import torch
from case import Items, Run, Validated, convs
from torch import nn
from torch.utils.data import DataLoader

STEPS, CLIPS, LENGTH, KEYS = 220, 480, 2000, 40


class Clips(Items):
    def __init__(self, sounds, keys):
        super().__init__(sounds)
        self.keys, self.window = keys, torch.hann_window(200)

    def __getitem__(self, index):
        start = int(torch.randint(0, 200, ()))
        sound = self.items[index, start : start + LENGTH - 200]
        shape = {"n_fft": 200, "hop_length": 50, "window": self.window}
        return torch.stft(sound, **shape, return_complex=True).abs().log1p(), self.keys[index]


def main(run: Run) -> None:
    data = Clips(torch.randn(CLIPS + 96, LENGTH), torch.randint(KEYS, (CLIPS + 96,)))
    heard, held = torch.utils.data.random_split(data, [CLIPS, 96])
    usual = {"batch_size": 48, "num_workers": 2, "persistent_workers": run.fixed}  # cause
    train, test = DataLoader(heard, shuffle=True, **usual), DataLoader(held, **usual)  # cause
    net = convs((101, 64, 3, 1), (64, 64, 3, 2), dims=1), nn.Linear(64, KEYS)
    run.fit(Validated(*net), train, test, num_sanity_val_steps=0)
