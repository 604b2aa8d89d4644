"""A small causal transformer over log lines, tokenised as they come.

cause: the collate function tokenises every line with a regex and looks words up, each epoch anew
accept: data-wait
"""

import random
import re

import torch
from case import Module, Run
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

STEPS = 320
TOKEN = re.compile(r"\d+|[a-z]+|[^\sa-z\d]")
WORDS = ["error", "warn", "user", "login", "from", "port", "retry", "timeout", "node", "disk"]


class Vocabulary:
    def __init__(self, lines):
        found = sorted({token for line in lines for token in TOKEN.findall(line)})
        self.ids = {token: number + 2 for number, token in enumerate(found)}

    def encode(self, line):
        tokens = [match.group(0).lower().strip() for match in TOKEN.finditer(line)]  # cause
        return torch.tensor([self.ids.get(token, 1) for token in tokens][:96])  # cause

    def collate(self, lines):
        return pad_sequence([self.encode(line) for line in lines], batch_first=True)  # cause


class LogModel(Module):
    def __init__(self, words):
        super().__init__()
        self.embed, self.head = nn.Embedding(words, 64), nn.Linear(64, words)
        layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)

    def loss(self, batch):
        x, y = batch[:, :-1], batch[:, 1:]
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        scores = self.head(self.body(self.embed(x), mask=mask, is_causal=True))
        return nn.functional.cross_entropy(scores.flatten(0, 1), y.flatten(), ignore_index=0)


def main(run: Run) -> None:
    rng = random.Random(3)
    words = [rng.choices(WORDS, k=rng.randint(25, 40)) for _ in range(4000)]
    lines = [" ".join(f"{word}={rng.randrange(100)};" for word in line) for line in words]
    vocabulary = Vocabulary(lines)
    collate = vocabulary.collate
    if run.fixed:
        lines = [vocabulary.encode(line) for line in lines]
        collate = lambda encoded: pad_sequence(encoded, batch_first=True)  # noqa: E731
    data = DataLoader(lines, batch_size=32, shuffle=True, collate_fn=collate)
    run.fit(LogModel(len(vocabulary.ids) + 2), data)
