"""What is in the grain, from its near-infrared spectrum: a plain, wide net in single precision.

seen in: pytorch/pytorch issue 153195, "TF32 is disabled by default without warning", and
Lightning-AI/pytorch-lightning issue 12997, "PyTorch 1.12 changes default fp32 math"

cause: matrix products in full float32, the default, which tensor cores do not take part in
right: says that the matrix products run without tensor cores; its change is TF32
    (torch.set_float32_matmul_precision) or a lower Trainer(precision=...)
"""

import lightning as L
import torch
from case import Run, arguments, sized
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

STEPS, EPOCH = 100, 200
BATCH, BANDS, WIDTH = sized((8192, 128, 2048), (64, 32, 64))
CONTENTS = 4


def layer(into: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(into, out), nn.SiLU())


class Grain(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        body = [layer(WIDTH, WIDTH) for _ in range(3)]
        self.net = nn.Sequential(layer(BANDS, WIDTH), *body, nn.Linear(WIDTH, CONTENTS))

    def training_step(self, batch, batch_idx):
        spectra, contents = batch
        loss = nn.functional.mse_loss(self.net(spectra), contents)  # cause
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    torch.set_float32_matmul_precision("high" if run.fixed else "highest")  # cause
    spectra = torch.rand(10 * BATCH, BANDS)
    data = TensorDataset(spectra, spectra[:, :CONTENTS] ** 2)
    batches = DataLoader(
        data,
        sampler=BatchSampler(RandomSampler(data, num_samples=EPOCH * BATCH), BATCH, drop_last=True),
        batch_size=None,
        num_workers=2,
        pin_memory=True,
        persistent_workers=True,
    )
    trainer = L.Trainer(enable_checkpointing=False, callbacks=run.callbacks, **run.trainer)  # cause
    trainer.fit(Grain(), batches)


if __name__ == "__main__":
    main(arguments(STEPS))
