"""A denoiser of small pictures; what it makes of held-out ones goes to TensorBoard.

source: pyannote/pyannote-audio PR #645 "fix: only log visual output every 10 epochs" (also
    TuragaLab/DECODE #17 "Logging training at the end of the epoch can take quite some time.")
cause: 24 pictures are drawn, written as PNG and logged at the end of every (short) epoch
right: names on_train_epoch_end (or add_image, or the epoch's end) as what the time goes to, with the
    advice to log pictures every n-th epoch, or fewer
"""

import numpy as np
import torch
from case import Run, Supervised, convs, whole_batches
from PIL import Image, ImageDraw
from torch import nn

STEPS = 160


class Denoiser(Supervised):
    def __init__(self, held, every):
        super().__init__(
            convs((1, 16, 3, 1), (16, 16, 3, 1), pool=False),
            nn.Conv2d(16, 1, 1),
            loss=nn.functional.mse_loss,
        )
        self.held, self.every = held, every

    def on_train_epoch_end(self):
        if self.current_epoch % self.every:
            return
        with torch.no_grad():
            cleaned = self.net(self.held)
        for number, (noisy, clean) in enumerate(zip(self.held, cleaned, strict=True)):
            pair = torch.cat([noisy[0], clean[0]], 1).clamp(0, 1).mul(255).byte().numpy()
            drawn = Image.fromarray(pair).resize((512, 256), Image.Resampling.BICUBIC)
            ImageDraw.Draw(drawn).text((4, 4), f"{number} epoch {self.current_epoch}", fill=255)
            shown = np.asarray(drawn)[None]
            self.logger.experiment.add_image(f"held/{number}", shown, self.global_step)  # cause


def main(run: Run) -> None:
    clean = torch.rand(480, 1, 28, 28).round()
    noisy = clean + 0.3 * torch.randn_like(clean)
    model = Denoiser(noisy[:24], 10 if run.fixed else 1)
    run.fit(model, whole_batches([noisy, clean], 24))
