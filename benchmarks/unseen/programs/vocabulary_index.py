"""Topic classification of news lines by a bag of attentive words.

cause: word ids are looked up by `list.index`, which walks the vocabulary from its start each time
accept: data-wait @line
"""

import numpy as np
import torch
from case import Items, Module, Run
from torch import nn
from torch.utils.data import DataLoader

STEPS, WORDS, TOPICS, LENGTH, LINES = 350, 8000, 20, 32, 3000


class News(Items):
    def __init__(self, lines, words, hashed):
        super().__init__(lines)
        self.words = words
        self.ids = {word: i for i, word in enumerate(words)} if hashed else None

    def __getitem__(self, i):
        ids = [self.id_of(word) for word in self.items[i].split()]  # cause
        return torch.tensor(ids), i % TOPICS

    def id_of(self, word):
        if self.ids is not None:
            return self.ids[word]
        return self.words.index(word)  # cause


class Classifier(Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(WORDS, 64), nn.Linear(64, TOPICS)
        layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)

    def loss(self, batch):
        scores = self.head(self.encoder(self.embed(batch[0])).mean(dim=1))
        return nn.functional.cross_entropy(scores, batch[1])


def main(run: Run) -> None:
    words = [f"word{i:05d}" for i in range(WORDS)]
    drawn = np.random.default_rng(0).zipf(1.25, size=(LINES, LENGTH)) - 1
    lines = [" ".join(words[i] for i in row) for row in np.minimum(drawn, WORDS - 1)]
    news = News(lines, words, hashed=run.fixed)
    run.fit(Classifier(), DataLoader(news, batch_size=24, shuffle=True))
