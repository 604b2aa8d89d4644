"""A small causal transformer over log lines, tokenised as they come.

cause: the collate function tokenises every line with a regex and looks words up, each epoch anew
accept: data-wait
"""

import random
import re

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

STEPS = 320
TOKEN = re.compile(r"\d+|[a-z]+|[^\sa-z\d]")
WORDS = ["error", "warn", "user", "login", "from", "port", "retry", "timeout", "node", "disk"]


def log_lines(count: int) -> list[str]:
    rng = random.Random(3)
    return [
        " ".join(f"{rng.choice(WORDS)}={rng.randrange(100)};" for _ in range(rng.randint(25, 40)))
        for _ in range(count)
    ]


class Vocabulary:
    def __init__(self, lines: list[str]) -> None:
        found = sorted({token for line in lines for token in TOKEN.findall(line)})
        self.ids = {token: number + 2 for number, token in enumerate(found)}

    def encode(self, line: str) -> torch.Tensor:
        tokens = [match.group(0).lower().strip() for match in TOKEN.finditer(line)]  # cause
        return torch.tensor([self.ids.get(token, 1) for token in tokens][:96])  # cause

    def collate(self, lines: list[str]) -> torch.Tensor:
        return pad_sequence([self.encode(line) for line in lines], batch_first=True)  # cause


def pad(encoded: list[torch.Tensor]) -> torch.Tensor:
    return pad_sequence(encoded, batch_first=True)


class LogModel(L.LightningModule):
    def __init__(self, words: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, 64)
        layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(64, words)

    def training_step(self, batch, batch_idx):
        x, y = batch[:, :-1], batch[:, 1:]
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        scores = self.head(self.body(self.embed(x), mask=mask, is_causal=True))
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), y.flatten(), ignore_index=0)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-4)


def main(run: Run) -> None:
    lines = log_lines(4000)
    vocabulary = Vocabulary(lines)
    if run.fixed:
        encoded = [vocabulary.encode(line) for line in lines]
        data = DataLoader(encoded, batch_size=32, shuffle=True, collate_fn=pad)
    else:
        data = DataLoader(lines, batch_size=32, shuffle=True, collate_fn=vocabulary.collate)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(LogModel(len(vocabulary.ids) + 2), data)


if __name__ == "__main__":
    main(arguments(STEPS))
