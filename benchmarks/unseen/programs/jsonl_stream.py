"""Sentiment of reviews with a GRU, read as a stream from a compressed JSON-lines file.

cause: the stream unpacks, parses and hashes every record anew in each pass, in the training process
accept: data-wait
"""

import gzip
import json
import random
import zlib

import torch
from case import Module, Run
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

STEPS, LENGTH, BUCKETS = 550, 80, 4096


class Reviews(IterableDataset):
    def __init__(self, path, count):
        self.path, rng = path, random.Random(5)
        with gzip.open(path, "wt") as file:
            for number in range(count):
                words = [f"word{rng.randrange(3000)}" for _ in range(rng.randint(60, 110))]
                meta = {"votes": [rng.random() for _ in range(8)], "user": {"id": number}}
                record = {"text": " ".join(words), "stars": number % 5, **meta}
                file.write(json.dumps(record) + "\n")

    def __iter__(self):
        with gzip.open(self.path, "rt") as file:  # cause
            for line in file:  # cause
                record = json.loads(line)  # cause
                words = record["text"].split()[:LENGTH]  # cause
                ids = [zlib.crc32(word.encode()) % BUCKETS for word in words]  # cause
                ids += [0] * (LENGTH - len(ids))  # cause
                yield torch.tensor(ids), record["stars"]  # cause


class Sentiment(Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(BUCKETS, 48), nn.Linear(48, 5)
        self.gru = nn.GRU(48, 48, batch_first=True)

    def loss(self, batch):
        _, last = self.gru(self.embed(batch[0]))
        return nn.functional.cross_entropy(self.head(last[0]), batch[1])


def main(run: Run) -> None:
    reviews = Reviews(run.root / "reviews.jsonl.gz", 3200)
    data = DataLoader(reviews, batch_size=32)
    if run.fixed:
        ids, stars = zip(*reviews, strict=True)
        parsed = zip(torch.stack(ids).split(32), torch.tensor(stars).split(32), strict=True)
        data = DataLoader(list(parsed), batch_size=None)
    run.fit(Sentiment(), data)
