"""Recipes from one language to another: a GRU reads, another one writes and looks back.

seen in: pytorch/examples issue 107, "Speed up attention", google/seq2seq issue 156 ("the att_keys
computation should be moved outside of the loop"), and odashi/chainer_examples issue 2, "Attention
Mechanism is Very Slow"

cause: for every written word the attention projects all words that were read to the same keys again
right: says that the projection of the words that were read (the keys) is repeated in the loop over
    the written words, or points at a marked line first; its change does it once before the loop
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 350
WORDS, READ, WRITTEN, WIDTH = 1500, 32, 12, 96


class Attention(nn.Module):
    def __init__(self, keys_once: bool) -> None:
        super().__init__()
        self.keys_once = keys_once
        self.query, self.key = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH, bias=False)
        self.score = nn.Linear(WIDTH, 1, bias=False)

    def forward(self, state, read, keys):
        if not self.keys_once:
            keys = self.key(read)  # cause
        shares = self.score(torch.tanh(self.query(state)[:, None] + keys)).softmax(dim=1)
        return (shares.mT @ read)[:, 0]


class Recipes(L.LightningModule):
    def __init__(self, keys_once: bool) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(WORDS, WIDTH), nn.Embedding(WORDS, WIDTH)
        self.reader = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.attention = Attention(keys_once)
        self.writer = nn.GRUCell(2 * WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, source, target):
        read, _ = self.reader(self.source(source))
        keys = self.attention.key(read) if self.attention.keys_once else None
        state, states = read[:, -1], []
        for word in self.target(target).unbind(dim=1):
            seen = self.attention(state, read, keys)  # cause
            state = self.writer(torch.cat([word, seen], dim=1), state)
            states.append(state)
        return self.head(torch.stack(states, dim=1))

    def training_step(self, batch, batch_idx):
        source, target = batch
        scores = self(source, target[:, :-1])
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), target[:, 1:].flatten())
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    recipes = TensorDataset(
        torch.randint(WORDS, (2000, READ)), torch.randint(WORDS, (2000, WRITTEN + 1))
    )
    data = DataLoader(recipes, batch_size=20, shuffle=True)
    trainer = L.Trainer(callbacks=run.callbacks, gradient_clip_val=1.0, **run.trainer)
    trainer.fit(Recipes(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
