"""Faces, squeezed and unfolded again; what comes out is shown as it gets better.

Reported in Shreeyak/pytorch-lightning-segmentation-template issue 26, "logging of images - use
callbacks": "add variable that logs every N epochs only".

cause: a callback puts 16 pictures into a grid and sends it to TensorBoard after every batch
right: names the callback (or add_image, or a marked line); the change is to do it every n batches
"""

import lightning as L
import torch
from case import Module, Run, mlp, whole_batches

STEPS, FACES, SIDE = 200, 2048, 48


class Shown(L.Callback):
    def __init__(self, every):
        self.every = every

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if batch_idx % self.every == 0:
            with torch.no_grad():
                faces = module.net(batch[0][:16]).clamp(0, 1).view(4, 4, SIDE, SIDE)
            grid = faces.permute(0, 2, 1, 3).reshape(1, 4 * SIDE, 4 * SIDE)
            trainer.logger.experiment.add_image("faces", grid, trainer.global_step)  # cause


class Squeezed(Module):
    def __init__(self):
        super().__init__()
        self.net = mlp(SIDE * SIDE, 256, 32, 256, SIDE * SIDE)

    def loss(self, batch):
        return (self.net(batch[0]) - batch[0]).square().mean()


def main(run: Run) -> None:
    shown = Shown(every=100 if run.fixed else 1)  # cause
    run.fit(Squeezed(), whole_batches([torch.rand(FACES, SIDE * SIDE)], 64), callbacks=[shown])
