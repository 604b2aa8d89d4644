"""When do the P and the S wave arrive? Long convolutions over a seismogram of 30 s at 100 Hz.

seen in: state-spaces/s4 issue 103, "rfft() padding", numpy/numpy issue 1864, "Extremely long
runtimes in numpy.fft.fft", and scipy/scipy pull request 3144, which pads to a 5-smooth length

cause: the long convolution transforms exactly twice the seismogram less one, a length with a large
    prime factor, for which the FFT is several times slower
right: says that the FFTs take the time because of their length (6001 = 17 * 353), or points at a
    marked line first and names the length; its change pads to a length of small factors
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 300
BATCH, LENGTH, CHANNELS = 4, 3001, 16


def smooth(least: int) -> int:
    """Return the smallest length from there on that has no prime factor above 5."""
    rest = least
    for factor in (2, 3, 5):
        while rest % factor == 0:
            rest //= factor
    return least if rest == 1 else smooth(least + 1)


class LongConvolution(nn.Module):
    """Each channel with a decaying filter as long as the seismogram, causally."""

    def __init__(self, padded: bool) -> None:
        super().__init__()
        self.size = smooth(2 * LENGTH - 1) if padded else 2 * LENGTH - 1
        speeds = torch.logspace(0, 2, CHANNELS)[:, None]
        self.register_buffer("decay", torch.exp(-speeds * torch.arange(LENGTH) / LENGTH))
        self.filters = nn.Parameter(torch.randn(CHANNELS, LENGTH) / LENGTH**0.5)
        self.skip = nn.Parameter(torch.ones(CHANNELS, 1))
        self.mix = nn.Conv1d(CHANNELS, CHANNELS, 1)

    def forward(self, waves):
        filters = torch.fft.rfft(self.filters * self.decay, n=self.size)  # cause
        spectrum = torch.fft.rfft(waves, n=self.size) * filters  # cause
        heard = torch.fft.irfft(spectrum, n=self.size)[..., :LENGTH]  # cause
        return waves + self.mix(nn.functional.gelu(heard + self.skip * waves))


class Arrivals(L.LightningModule):
    def __init__(self, padded: bool) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(3, CHANNELS, 7, padding=3),
            LongConvolution(padded),
            LongConvolution(padded),
            nn.Conv1d(CHANNELS, 3, 7, padding=3),
        )

    def training_step(self, batch, batch_idx):
        waves, phases = batch
        loss = nn.functional.cross_entropy(self.layers(waves), phases)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    waves = torch.randn(800, 3, LENGTH)
    arrivals = torch.randint(300, LENGTH - 300, (800, 2, 1)).sort(dim=1).values
    near = (torch.arange(LENGTH) - arrivals).abs() < 20
    phases = torch.where(near[:, 0], 1, torch.where(near[:, 1], 2, 0))
    data = DataLoader(TensorDataset(waves, phases), batch_size=BATCH, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Arrivals(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
