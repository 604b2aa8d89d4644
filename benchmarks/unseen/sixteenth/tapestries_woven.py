"""What did the tapestry look like? An autoencoder whose pictures have to feel like the real ones.

cause: every training step registers a forward hook on the judging network to get at its texture,
    and never takes it off: each step has one hook more to run, which all compute the same texture
right: names register_forward_hook in training_step (or the hook feel, or the steps that grow
    longer because of it); its change is to register the hook once, in __init__, or to remove it
    after use

Seen in https://github.com/greentfrapp/lucent/issues/45 ("becomes slow when used multiple times")
and https://github.com/KamitaniLab/bdpy/issues/72.
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

STEPS = 200
GROWS = True
PICTURES, SIDE, BATCH, WIDTH = 3000, 32, 24, 24


class Tapestries(L.LightningModule):
    def __init__(self, fixed) -> None:
        super().__init__()
        self.fixed = fixed
        self.felt = {}
        self.judge = nn.Sequential(
            nn.Conv2d(3, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(12, 16, 3)
        ).requires_grad_(False)
        self.weave = nn.Sequential(
            nn.Conv2d(3, WIDTH, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(WIDTH, 2 * WIDTH, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.ConvTranspose2d(2 * WIDTH, WIDTH, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.ConvTranspose2d(WIDTH, 3, 4, stride=2, padding=1),
        )

    def feel(self, module, inputs, output) -> None:
        flat = output.flatten(2)
        self.felt["texture"] = flat @ flat.transpose(1, 2) / flat.shape[2]  # cause

    def texture(self, pictures):
        self.judge(pictures)
        return self.felt["texture"]

    def training_step(self, batch, batch_idx):
        (pictures,) = batch
        handle = self.judge[3].register_forward_hook(self.feel)  # cause
        woven = self.weave(pictures)
        loss = nn.functional.l1_loss(woven, pictures)
        loss = loss + nn.functional.mse_loss(self.texture(woven), self.texture(pictures))
        if self.fixed:
            handle.remove()
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.weave.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    threads = torch.rand(PICTURES, 3, SIDE // 4, SIDE // 4)
    pictures = TensorDataset(nn.functional.interpolate(threads, scale_factor=4.0))
    batches = BatchSampler(RandomSampler(pictures), BATCH, drop_last=True)
    data = DataLoader(pictures, sampler=batches, batch_size=None)
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Tapestries(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
