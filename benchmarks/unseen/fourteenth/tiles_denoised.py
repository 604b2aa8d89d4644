"""Draws a tile from its caption: a diffusion model whose captions a frozen encoder reads.

cause: the callback that keeps the moving average of the weights averages the frozen encoder's
    too, whose word table is many times as large as what is trained and never changes
right: names the callback's on_train_batch_end (the average's update, at its line); its change is
    to average trained weights only (or less often)
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 150
COUNT, BATCH, SIDE = 1200, 10, 32
WORDS, LENGTH, WIDTH, TIMES = 40000, 12, 128, 500


class Tiles(Dataset):
    def __init__(self) -> None:
        self.captions = torch.randint(0, WORDS, (COUNT, LENGTH))
        shade = (self.captions[:, 0] % 5).float() / 2 - 1
        self.tiles = shade[:, None, None, None] + 0.1 * torch.randn(COUNT, 3, SIDE, SIDE)

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        return self.tiles[index], self.captions[index]


class Average(L.Callback):
    """Keeps the exponential moving average of the weights."""

    def __init__(self, fixed, decay=0.999) -> None:
        self.fixed = fixed
        self.decay = decay
        self.kept = {}

    def on_fit_start(self, trainer, module):
        for name, weight in module.named_parameters():
            if weight.requires_grad or not self.fixed:
                self.kept[name] = weight.detach().clone()

    @torch.no_grad()
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        for name, weight in module.named_parameters():
            if name in self.kept:
                self.kept[name].mul_(self.decay).add_(weight, alpha=1 - self.decay)  # cause


class Denoiser(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH).requires_grad_(False)
        self.read = nn.Linear(WIDTH, WIDTH).requires_grad_(False)
        self.time = nn.Embedding(TIMES, WIDTH)
        self.enter = nn.Conv2d(3, 32, 3, padding=1)
        self.down = nn.Conv2d(32, 64, 3, stride=2, padding=1)
        self.told = nn.Linear(WIDTH, 64)
        self.middle = nn.Sequential(nn.GroupNorm(8, 64), nn.SiLU(), nn.Conv2d(64, 64, 3, padding=1))
        self.up = nn.ConvTranspose2d(64, 32, 2, stride=2)
        self.leave = nn.Sequential(nn.GroupNorm(8, 32), nn.SiLU(), nn.Conv2d(32, 3, 3, padding=1))
        self.register_buffer("kept", torch.linspace(0.9999, 0.98, TIMES).cumprod(0))

    def forward(self, noised, times, captions):
        with torch.no_grad():
            read = self.read(self.words(captions)).mean(dim=1)
        told = self.told(read + self.time(times))
        wide = self.enter(noised)
        deep = self.down(nn.functional.silu(wide)) + told[:, :, None, None]
        return self.leave(wide + self.up(deep + self.middle(deep)))

    def training_step(self, batch, batch_idx):
        tiles, captions = batch
        times = torch.randint(0, TIMES, (len(tiles),), device=tiles.device)
        noise = torch.randn_like(tiles)
        kept = self.kept[times][:, None, None, None]
        guessed = self(kept.sqrt() * tiles + (1 - kept).sqrt() * noise, times, captions)
        loss = nn.functional.mse_loss(guessed, noise)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        trained = [p for p in self.parameters() if p.requires_grad]
        return torch.optim.AdamW(trained, lr=1e-3, fused=True)


def main(run: Run) -> None:
    data = DataLoader(Tiles(), batch_size=BATCH, shuffle=True)
    trainer = L.Trainer(
        callbacks=[Average(run.fixed), *run.callbacks], enable_checkpointing=False, **run.trainer
    )
    trainer.fit(Denoiser(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
