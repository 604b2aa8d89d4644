"""How will the plasma's field move on? A neural operator with long filters, by way of Fourier.

cause: the layers filter real signals with the complex transform (torch.fft.fft, ifft and .real):
    the half of each spectrum that mirrors the other is computed, multiplied and sent back too
right: names the complex transform of real signals in the layer (fft_fft, its complex products or
    its backward); its change is torch.fft.rfft and irfft, which compute half of it, with the same
    result

Seen in https://github.com/SciML/OperatorLearning.jl/issues/33 ("rfft can save ~2x") and
https://github.com/SciML/FluxNeuralOperators.jl/issues/85.
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

STEPS = 160
FIELDS, PLACES, BATCH, WIDTH, LAYERS = 3000, 512, 16, 32, 3


class Filter(nn.Module):
    """Every channel with a filter as long as the field, which goes round; then a mix of them."""

    def __init__(self, fixed) -> None:
        super().__init__()
        self.fixed = fixed
        fall = torch.linspace(0, -6, PLACES).exp()
        self.filters = nn.Parameter(0.1 * torch.randn(WIDTH, PLACES) * fall)
        self.mix = nn.Linear(WIDTH, WIDTH)

    def filtered(self, fields):
        if self.fixed:
            spectrum = torch.fft.rfft(fields) * torch.fft.rfft(self.filters)
            return torch.fft.irfft(spectrum, n=PLACES)
        spectrum = torch.fft.fft(fields) * torch.fft.fft(self.filters)  # cause
        return torch.fft.ifft(spectrum).real  # cause

    def forward(self, fields):
        mixed = self.mix(self.filtered(fields).transpose(1, 2)).transpose(1, 2)
        return fields + nn.functional.silu(mixed)


class Plasmas(L.LightningModule):
    def __init__(self, fixed) -> None:
        super().__init__()
        self.lift = nn.Conv1d(1, WIDTH, 1)
        self.layers = nn.Sequential(*(Filter(fixed) for _ in range(LAYERS)))
        self.lower = nn.Conv1d(WIDTH, 1, 1)

    def training_step(self, batch, batch_idx):
        now, later = batch
        said = self.lower(self.layers(self.lift(now.unsqueeze(1)))).squeeze(1)
        loss = nn.functional.mse_loss(said, later)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    spectra = torch.randn(FIELDS, PLACES // 2 + 1, dtype=torch.complex64)
    spectra *= torch.linspace(0, -8, PLACES // 2 + 1).exp()
    now = torch.fft.irfft(spectra, n=PLACES) * 10
    known = TensorDataset(now, 0.7 * now.roll(7, dims=1) + 0.3 * now.tanh())
    batches = BatchSampler(RandomSampler(known), BATCH, drop_last=True)
    data = DataLoader(known, sampler=batches, batch_size=None)
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Plasmas(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
