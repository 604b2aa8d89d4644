"""Who speaks? Utterances of different lengths, pooled over the frames that are no padding.

cause: pooling slices utterance by utterance; each slice has a gradient as large as the batch
accept: host-bound small-kernels @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

STEPS = 350
BANDS, SPEAKERS = 40, 100


class Utterances(Dataset):
    def __init__(self, count: int) -> None:
        lengths = torch.randint(40, 100, (count,))
        self.frames = [torch.randn(int(n), BANDS) for n in lengths]
        self.speakers = torch.randint(SPEAKERS, (count,))

    def __len__(self) -> int:
        return len(self.frames)

    def __getitem__(self, i: int):
        return self.frames[i], self.speakers[i]


def collate(samples):
    frames, speakers = zip(*samples, strict=True)
    lengths = torch.tensor([len(f) for f in frames])
    return pad_sequence(frames, batch_first=True), lengths, torch.stack(speakers)


def pooled(hidden, lengths):
    rows = [hidden[i, :n].mean(dim=0) for i, n in enumerate(lengths)]  # cause
    return torch.stack(rows)  # cause


def pooled_by_mask(hidden, lengths):
    inside = torch.arange(hidden.shape[1]) < lengths[:, None]
    return (hidden * inside[..., None]).sum(dim=1) / lengths[:, None]


class SpeakerNet(L.LightningModule):
    def __init__(self, pool) -> None:
        super().__init__()
        self.pool = pool
        self.frames = nn.Sequential(
            nn.Linear(BANDS, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 64)
        )
        self.head = nn.Linear(64, SPEAKERS)

    def training_step(self, batch, batch_idx):
        frames, lengths, speakers = batch
        voices = self.pool(self.frames(frames), lengths)  # cause
        loss = nn.functional.cross_entropy(self.head(voices), speakers)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    data = DataLoader(Utterances(1280), batch_size=64, shuffle=True, collate_fn=collate)
    model = SpeakerNet(pooled_by_mask if run.fixed else pooled)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(model, data)


if __name__ == "__main__":
    main(arguments(STEPS))
