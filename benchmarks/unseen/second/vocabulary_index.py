"""Topic classification of news lines by a bag of attentive words.

cause: word ids are looked up by `list.index`, which walks the vocabulary from its start each time
accept: data-wait @line
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 350
WORDS, TOPICS, LENGTH = 8000, 20, 32


class Vocabulary:
    def __init__(self, words: list[str], hashed: bool) -> None:
        self.words = words
        self.ids = {word: i for i, word in enumerate(words)} if hashed else None

    def __getitem__(self, word: str) -> int:
        if self.ids is not None:
            return self.ids[word]
        return self.words.index(word)  # cause


class News(Dataset):
    def __init__(self, lines: list[str], topics: list[int], vocabulary: Vocabulary) -> None:
        self.lines, self.topics, self.vocabulary = lines, topics, vocabulary

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, i: int):
        ids = [self.vocabulary[word] for word in self.lines[i].split()]  # cause
        return torch.tensor(ids), self.topics[i]


class Classifier(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, 64)
        layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(64, TOPICS)

    def training_step(self, batch, batch_idx):
        words, topics = batch
        scores = self.head(self.encoder(self.embed(words)).mean(dim=1))
        loss = nn.functional.cross_entropy(scores, topics)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=3e-4)


def main(run: Run) -> None:
    rng = np.random.default_rng(0)
    words = [f"word{i:05d}" for i in range(WORDS)]
    drawn = np.minimum(rng.zipf(1.25, size=(3000, LENGTH)) - 1, WORDS - 1)
    lines = [" ".join(words[i] for i in row) for row in drawn]
    news = News(lines, rng.integers(TOPICS, size=3000).tolist(), Vocabulary(words, run.fixed))
    data = DataLoader(news, batch_size=24, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Classifier(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
