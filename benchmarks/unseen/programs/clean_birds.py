"""Which birds sing in a recording: spectra of the whole batch at once, several may be right."""

import torch
from case import Module, Run, convs, shuffled
from torch import nn
from torchmetrics.classification import MultilabelF1Score

STEPS, BIRDS, SAMPLES, WINDOW = 160, 18, 6400, 256


class Birds(Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(WINDOW))
        layers = convs((WINDOW // 2 + 1, 128, 3, 1), (128, 128, 3, 2), dims=1)
        self.net = nn.Sequential(layers, nn.Linear(128, BIRDS))
        self.f1 = MultilabelF1Score(BIRDS)

    def forward(self, sounds):
        spectra = torch.stft(sounds, WINDOW, 128, window=self.window, return_complex=True)
        return self.net(spectra.abs().add(1e-3).log())

    def loss(self, batch):
        return nn.functional.binary_cross_entropy_with_logits(self(batch[0]), batch[1])

    def validation_step(self, batch, batch_idx):
        self.f1.update(self(batch[0]), batch[1].int())
        self.log("val_f1", self.f1)


def recordings(count):
    return torch.randn(count, SAMPLES), torch.randint(2, (count, BIRDS)).float()


def main(run: Run) -> None:
    run.fit(Birds(), shuffled(16, *recordings(1280)), shuffled(16, *recordings(32)))
