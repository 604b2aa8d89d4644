"""How will the plasma's field move on? A neural operator whose attention has no softmax.

cause: the attention multiplies queries with keys first, which makes a matrix of all places by all
    places, and that with the values; without a softmax between them the order is free
right: names the products in attended (bmm or matmul of places by places); its change is to multiply
    keys with values first (a small matrix of channels by channels) and the queries with that

Seen in https://github.com/sdoria/SimpleSelfAttention/pull/1 ("Changed order of operations to
reduce run time") and https://github.com/cmsflash/efficient-attention/issues/14.
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

STEPS = 160
FIELDS, PLACES, BATCH, WIDTH, LAYERS = 2400, 448, 6, 64, 2


class Attention(nn.Module):
    """All places heed all others by the products of their normed channels (Galerkin's way)."""

    def __init__(self, fixed) -> None:
        super().__init__()
        self.fixed = fixed
        self.asks = nn.Linear(WIDTH, 3 * WIDTH)
        self.keys, self.values = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.after = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.SiLU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def attended(self, queries, keys, values):
        if self.fixed:
            return queries @ (keys.transpose(1, 2) @ values)
        return queries @ keys.transpose(1, 2) @ values  # cause

    def forward(self, fields):
        queries, keys, values = self.asks(fields).chunk(3, dim=2)
        found = self.attended(queries, self.keys(keys), self.values(values))
        fields = fields + found / PLACES
        return fields + self.after(fields)


class Plasmas(L.LightningModule):
    def __init__(self, fixed) -> None:
        super().__init__()
        self.lift = nn.Linear(2, WIDTH)
        self.layers = nn.Sequential(*(Attention(fixed) for _ in range(LAYERS)))
        self.lower = nn.Linear(WIDTH, 1)
        places = torch.linspace(0, 1, PLACES).view(1, -1, 1).expand(BATCH, -1, 1)
        self.register_buffer("places", places, persistent=False)

    def training_step(self, batch, batch_idx):
        now, later = batch
        fields = torch.cat([now.unsqueeze(2), self.places], dim=2)
        said = self.lower(self.layers(self.lift(fields))).squeeze(2)
        loss = nn.functional.mse_loss(said, later)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    spectra = torch.randn(FIELDS, PLACES // 2 + 1, dtype=torch.complex64)
    spectra *= torch.linspace(0, -8, PLACES // 2 + 1).exp()
    now = torch.fft.irfft(spectra, n=PLACES)
    now /= now.std()
    known = TensorDataset(now, 0.7 * now.roll(7, dims=1) + 0.3 * now.tanh())
    batches = BatchSampler(RandomSampler(known), BATCH, drop_last=True)
    data = DataLoader(known, sampler=batches, batch_size=None)
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Plasmas(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
