"""Who works for whom? Relations in sentences, from words joined with their heads in the grammar.

seen in: qipeng/gcn-over-pruned-trees issue 11, "Speedup training 10 times by one line of code" (the
trees are walked through tensors, element by element)

cause: forward reads and writes the trees element by element of tensors, in Python loops
right: names the many small tensor operations of that loop (in forward or training_step), or points
    at a marked line or its function first; its change does them at once, in plain Python or NumPy,
    or beforehand in the dataset
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 1300
WORDS, LENGTH, WIDTH, RELATIONS = 3000, 20, 64, 15


def joined(heads):
    trees = torch.eye(LENGTH).repeat(len(heads), 1, 1)
    for sentence in range(len(heads)):
        for word in range(LENGTH):
            head = heads[sentence, word]  # cause
            if head > 0:  # cause
                trees[sentence, word, head - 1] = 1  # cause
                trees[sentence, head - 1, word] = 1  # cause
    return trees


def joined_at_once(heads):
    trees = torch.eye(LENGTH).repeat(len(heads), 1, 1)
    sentence, word = (heads > 0).nonzero(as_tuple=True)
    head = heads[sentence, word] - 1
    trees[sentence, word, head] = 1
    trees[sentence, head, word] = 1
    return trees


class Relations(L.LightningModule):
    def __init__(self, at_once: bool) -> None:
        super().__init__()
        self.joined = joined_at_once if at_once else joined
        self.words = nn.Embedding(WORDS, WIDTH)
        self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True, bidirectional=True)
        self.layers = nn.ModuleList(nn.Linear(2 * WIDTH, 2 * WIDTH) for _ in range(2))
        self.head = nn.Linear(4 * WIDTH, RELATIONS)

    def forward(self, words, heads):
        trees = self.joined(heads)  # cause
        states, _ = self.lstm(self.words(words))
        for layer in self.layers:
            states = (trees @ layer(states) / trees.sum(dim=2, keepdim=True)).relu()
        return self.head(torch.cat([states.amax(dim=1), states[:, 0]], dim=1))

    def training_step(self, batch, batch_idx):
        words, heads, relations = batch
        loss = nn.functional.cross_entropy(self(words, heads), relations)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adagrad(self.parameters(), lr=1e-2)


def main(run: Run) -> None:
    sentences = TensorDataset(
        torch.randint(WORDS, (1500, LENGTH)),
        torch.randint(LENGTH + 1, (1500, LENGTH)),
        torch.randint(RELATIONS, (1500,)),
    )
    data = DataLoader(sentences, batch_size=12, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Relations(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
