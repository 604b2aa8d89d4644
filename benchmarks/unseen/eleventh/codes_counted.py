"""Music as tokens: a vector-quantising autoencoder, watched for codes that are never used.

cause: the callback that watches the codebook counts every code of every batch in a Python loop
right: time in a callback; names CodebookUsage.on_train_batch_end or its loop (a marked line); the
    change counts with one call (torch.bincount) or less often
"""

from collections import defaultdict

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 450
CLIPS, SAMPLES, CODES, WIDTH = 640, 1024, 256, 48


class CodebookUsage(L.Callback):
    """Logs how many codes the encoder has used in the epoch so far."""

    def __init__(self, at_once: bool) -> None:
        self.at_once = at_once
        self.seen = defaultdict(int)
        self.counts = torch.zeros(CODES, dtype=torch.long)

    def on_train_epoch_start(self, trainer, pl_module):
        self.seen.clear()
        self.counts.zero_()

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        codes = outputs["codes"]
        if self.at_once:
            self.counts += torch.bincount(codes.flatten(), minlength=CODES)
        else:
            for code in codes.flatten():  # cause
                self.seen[code.item()] += 1  # cause

    def on_train_epoch_end(self, trainer, pl_module):
        used = int((self.counts > 0).sum()) if self.at_once else len(self.seen)
        pl_module.log("codes_used", float(used))


class Tokens(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv1d(1, 32, 8, stride=4, padding=2),
            nn.GELU(),
            nn.Conv1d(32, 64, 8, stride=4, padding=2),
            nn.GELU(),
            nn.Conv1d(64, WIDTH, 3, padding=1),
        )
        self.book = nn.Embedding(CODES, WIDTH)
        self.decoder = nn.Sequential(
            nn.Conv1d(WIDTH, 64, 3, padding=1),
            nn.GELU(),
            nn.ConvTranspose1d(64, 32, 8, stride=4, padding=2),
            nn.GELU(),
            nn.ConvTranspose1d(32, 1, 8, stride=4, padding=2),
        )

    def training_step(self, batch, batch_idx):
        (waves,) = batch
        hidden = self.encoder(waves).transpose(1, 2)
        with torch.no_grad():
            flat = hidden.reshape(-1, WIDTH)
            far = self.book.weight.square().sum(1) - 2 * flat @ self.book.weight.T
            codes = far.argmin(1).view(hidden.shape[:2])
        chosen = self.book(codes)
        through = hidden + (chosen - hidden).detach()
        rebuilt = self.decoder(through.transpose(1, 2))
        commit = nn.functional.mse_loss(hidden, chosen.detach())
        learnt = nn.functional.mse_loss(chosen, hidden.detach())
        loss = nn.functional.mse_loss(rebuilt, waves) + learnt + 0.25 * commit
        self.log("train_loss", loss)
        return {"loss": loss, "codes": codes}

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    time = torch.arange(SAMPLES) / SAMPLES
    waves = torch.sin(torch.rand(CLIPS, 1, 1) * 400 * time) + 0.1 * torch.randn(CLIPS, 1, SAMPLES)
    data = DataLoader(TensorDataset(waves), batch_size=32, shuffle=True)
    usage = CodebookUsage(at_once=run.fixed)
    L.Trainer(callbacks=[usage, *run.callbacks], **run.trainer).fit(Tokens(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
