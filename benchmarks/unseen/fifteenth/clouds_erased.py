"""What lies under the clouds? A network fills in places that clouds hide from a satellite.

cause: on_after_batch_transfer puts cloud over the images by a boolean index on both sides
    (seen[clouds] = white[clouds]), for which the places are listed, gathered and scattered
right: names that assignment by a boolean mask in on_after_batch_transfer; its change is torch.where
    (or masked_fill and the like), which computes the same in one pass

Seen in https://github.com/pytorch/pytorch/issues/57515.
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 130
SCENES, BANDS, SIDE, BATCH, WIDTH = 1600, 6, 48, 16, 16


class Painter(L.LightningModule):
    def __init__(self, fixed) -> None:
        super().__init__()
        self.fixed = fixed
        self.net = nn.Sequential(
            nn.Conv2d(BANDS, WIDTH, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(WIDTH, 2 * WIDTH, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(2 * WIDTH, 4 * BANDS, 3, padding=1),
            nn.PixelShuffle(2),
        )

    def on_after_batch_transfer(self, batch, dataloader_idx):
        (scenes,) = batch
        coarse = torch.rand(len(scenes), BANDS, SIDE // 4, SIDE // 4, device=scenes.device)
        clouds = nn.functional.interpolate(coarse, scale_factor=4) < 0.4
        white = 1 + 0.1 * torch.randn_like(scenes)
        if self.fixed:
            seen = torch.where(clouds, white, scenes)
        else:
            seen = scenes.clone()
            seen[clouds] = white[clouds]  # cause
        return seen, scenes, clouds

    def training_step(self, batch, batch_idx):
        seen, scenes, clouds = batch
        wrong = (self.net(seen) - scenes).square() * clouds
        loss = wrong.sum() / clouds.sum()
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    ramp = torch.linspace(0, 3, SIDE)
    hills = torch.sin(ramp[:, None] * torch.rand(SCENES, BANDS, 1, 1) * 4)
    scenes = hills * torch.cos(ramp * torch.rand(SCENES, 1, 1, 1) * 4)
    data = DataLoader(TensorDataset(scenes), batch_size=BATCH, shuffle=True, drop_last=True)
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Painter(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
