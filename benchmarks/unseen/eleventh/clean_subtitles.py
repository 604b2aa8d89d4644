"""Subtitles into another language: lines of like length together, two batches to an update.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, Sampler

STEPS = 200
LINES, WORDS, WIDTH, BATCH = 3200, 800, 128, 24


class Lines(Dataset):
    def __init__(self) -> None:
        lengths = torch.randint(8, 28, (LINES,)).tolist()
        self.source = [torch.randint(2, WORDS, (length,)) for length in lengths]
        self.target = [(line.flip(0) * 3 + 1) % (WORDS - 2) + 2 for line in self.source]

    def __len__(self):
        return LINES

    def __getitem__(self, index):
        return self.source[index], self.target[index]


class LikeLengths(Sampler):
    """Batches of lines that are about as long, in an order that changes by epoch."""

    def __init__(self, lengths: list[int]) -> None:
        order = torch.tensor(lengths).argsort()
        self.batches = [batch.tolist() for batch in order.split(BATCH)]

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        for at in torch.randperm(len(self.batches)).tolist():
            yield self.batches[at]


def padded(lines):
    source, target = zip(*lines, strict=True)
    return pad_sequence(source, batch_first=True), pad_sequence(target, batch_first=True)


class Subtitles(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.source = nn.Embedding(WORDS, WIDTH, padding_idx=0)
        self.target = nn.Embedding(WORDS, WIDTH, padding_idx=0)
        self.places = nn.Embedding(32, WIDTH)
        self.transformer = nn.Transformer(
            WIDTH, 4, 2, 2, 4 * WIDTH, dropout=0.1, batch_first=True, norm_first=True
        )
        self.head = nn.Linear(WIDTH, WORDS)

    def training_step(self, batch, batch_idx):
        source, target = batch
        begun = nn.functional.pad(target[:, :-1], (1, 0), value=1)
        places = self.places.weight[: source.shape[1]]
        ahead = torch.ones(len(places), len(places), dtype=torch.bool, device=self.device).triu(1)
        said = self.transformer(
            self.source(source) + places,
            self.target(begun) + places,
            tgt_mask=ahead,
            src_key_padding_mask=source == 0,
            memory_key_padding_mask=source == 0,
        )
        loss = nn.functional.cross_entropy(
            self.head(said).flatten(0, 1), target.flatten(), ignore_index=0, label_smoothing=0.1
        )
        self.log("train_loss", loss, batch_size=len(source))
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=5e-4, fused=True)
        warm = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, 1.0, total_iters=100)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": warm, "interval": "step"}}


def main(run: Run) -> None:
    lines = Lines()
    alike = LikeLengths([len(line) for line in lines.source])
    data = DataLoader(lines, batch_sampler=alike, collate_fn=padded)
    trainer = L.Trainer(
        callbacks=run.callbacks, accumulate_grad_batches=2, gradient_clip_val=1.0, **run.trainer
    )
    trainer.fit(Subtitles(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
