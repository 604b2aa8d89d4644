"""Which bird sings: log-mel spectrograms of three seconds each, four workers, one GPU.

seen in: kitzeslab/opensoundscape issue 1176, "take advantage of batched GPU Spectrogram
operations", mozilla/TTS issue 214, "Preprocessing on the fly", and Rudrabha/Wav2Lip issue 447

cause: the spectrogram of each clip is computed by itself on a CPU, in the dataset; the workers do
    not keep up with the GPU, which could do a whole batch in a fraction of a millisecond
right: says that the step waits for its data and names the spectrogram in __getitem__ (a marked
    line, stft or the product after it) as what the workers' time goes into; its change computes it
    on the GPU, once beforehand, or with more workers
"""

import lightning as L
import torch
from case import Run, arguments, sized
from torch import nn
from torch.utils.data import DataLoader, Dataset, RandomSampler

STEPS, EPOCH = 80, 200
BATCH, CLIPS, WIDTH, WORKERS = sized((32, 256, 64, 4), (4, 16, 8, 2))
RATE, WINDOW, HOP, BANDS, KINDS = 16000, 1024, 256, 80, 40
LONG = 3 * RATE


def bands() -> torch.Tensor:
    """Return [bands, frequencies], a triangle for each band, evenly spaced on the mel scale."""
    places = torch.linspace(0, RATE / 2, WINDOW // 2 + 1)
    top = 2595 * torch.log10(torch.tensor(1 + RATE / 2 / 700))
    edges = 700 * (10 ** (torch.linspace(0, float(top), BANDS + 2) / 2595) - 1)
    low, middle, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    rising, falling = (places - low) / (middle - low), (high - places) / (high - middle)
    return torch.minimum(rising, falling).clamp(min=0)


def log_mel(waves, window, weights):
    waves = waves.float() / 32768
    parts = torch.stft(waves, WINDOW, HOP, window=window, return_complex=True)  # cause
    power = torch.view_as_real(parts).square().sum(dim=-1)  # cause
    return (weights @ power + 1e-6).log()  # cause


class Clips(Dataset):
    def __init__(self, as_waves: bool) -> None:
        self.as_waves = as_waves
        self.waves = torch.randint(-9000, 9000, (CLIPS, LONG), dtype=torch.int16)
        self.kinds = torch.randint(KINDS, (CLIPS,))
        self.window, self.weights = torch.hann_window(WINDOW), bands()

    def __len__(self):
        return CLIPS

    def __getitem__(self, index):
        wave = self.waves[index]
        if not self.as_waves:
            wave = log_mel(wave, self.window, self.weights)  # cause
        return wave, self.kinds[index]


class Birds(L.LightningModule):
    def __init__(self, from_waves: bool) -> None:
        super().__init__()
        self.from_waves = from_waves
        self.register_buffer("window", torch.hann_window(WINDOW))
        self.register_buffer("weights", bands())
        layers, into = [], 1
        for out in (WIDTH, WIDTH, 2 * WIDTH, 4 * WIDTH):
            convolution = nn.Conv2d(into, out, 3, 2, padding=1, bias=False)
            layers += [convolution, nn.BatchNorm2d(out), nn.ReLU()]
            into = out
        self.net = nn.Sequential(
            *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(into, KINDS)
        )
        self.net.to(memory_format=torch.channels_last)

    def on_after_batch_transfer(self, batch, dataloader_idx):
        clips, kinds = batch
        if self.from_waves:
            clips = log_mel(clips, self.window, self.weights)
        return clips[:, None], kinds

    def training_step(self, batch, batch_idx):
        spectra, kinds = batch
        loss = nn.functional.cross_entropy(self.net(spectra), kinds)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    clips = Clips(run.fixed)
    batches = DataLoader(
        clips,
        BATCH,
        sampler=RandomSampler(clips, num_samples=EPOCH * BATCH),
        drop_last=True,
        num_workers=WORKERS,
        pin_memory=True,
        persistent_workers=True,
    )
    trainer = L.Trainer(
        precision="bf16-mixed", enable_checkpointing=False, callbacks=run.callbacks, **run.trainer
    )
    trainer.fit(Birds(run.fixed), batches)


if __name__ == "__main__":
    main(arguments(STEPS))
