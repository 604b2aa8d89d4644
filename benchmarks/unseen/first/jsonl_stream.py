"""Sentiment of reviews with a GRU, read as a stream from a compressed JSON-lines file.

cause: the stream unpacks, parses and hashes every record anew in each pass, in the training process
accept: data-wait
"""

import gzip
import json
import random
import zlib
from pathlib import Path

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

STEPS = 550
LENGTH, BUCKETS = 80, 4096


def write_reviews(path: Path, count: int) -> None:
    rng = random.Random(5)
    with gzip.open(path, "wt") as file:
        for number in range(count):
            words = [f"word{rng.randrange(3000)}" for _ in range(rng.randint(60, 110))]
            meta = {"votes": [rng.random() for _ in range(8)], "user": {"id": number}}
            file.write(json.dumps({"text": " ".join(words), "stars": number % 5, **meta}) + "\n")


class Reviews(IterableDataset):
    def __init__(self, path: Path) -> None:
        self.path = path

    def __iter__(self):
        with gzip.open(self.path, "rt") as file:  # cause
            for line in file:  # cause
                record = json.loads(line)  # cause
                words = record["text"].split()[:LENGTH]  # cause
                ids = [zlib.crc32(word.encode()) % BUCKETS for word in words]  # cause
                ids += [0] * (LENGTH - len(ids))  # cause
                yield torch.tensor(ids), record["stars"]  # cause


class Cached(IterableDataset):
    """The same records, parsed once and kept as two tensors."""

    def __init__(self, path: Path) -> None:
        ids, stars = zip(*Reviews(path), strict=True)
        self.ids, self.stars = torch.stack(ids), torch.tensor(stars)

    def __iter__(self):
        return zip(self.ids.split(32), self.stars.split(32), strict=True)


class Sentiment(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(BUCKETS, 48)
        self.gru = nn.GRU(48, 48, batch_first=True)
        self.head = nn.Linear(48, 5)

    def training_step(self, batch, batch_idx):
        ids, stars = batch
        _, last = self.gru(self.embed(ids))
        loss = nn.functional.cross_entropy(self.head(last[0]), stars)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    run.root.mkdir(parents=True, exist_ok=True)
    path = run.root / "reviews.jsonl.gz"
    write_reviews(path, 3200)
    if run.fixed:
        data = DataLoader(Cached(path), batch_size=None)
    else:
        data = DataLoader(Reviews(path), batch_size=32)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Sentiment(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
