"""Which words are hard? A small language model and the spread of its losses so far.

seen in: Lightning-AI/pytorch-lightning issue 2493, "Training slows down with long epoch": outputs
of all steps are put together again at each

cause: all losses since the start are kept, with their graphs, and joined and sorted at every step
accept: memory-growth retained-graph @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 700
GROWS = True
WORDS, LENGTH, WIDTH = 600, 20, 64


class Words(L.LightningModule):
    def __init__(self, keep_all: bool) -> None:
        super().__init__()
        self.keep_all = keep_all
        self.losses: list[torch.Tensor] = []
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.gru = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.head = nn.Linear(WIDTH, WORDS)

    def spread(self, losses):
        """Return the middle and the ninth tenth of the losses so far."""
        if not self.keep_all:
            return losses.detach().quantile(torch.tensor([0.5, 0.9]))
        self.losses.append(losses)  # cause
        ordered = torch.cat(self.losses).sort().values  # cause
        return ordered[len(ordered) // 2], ordered[len(ordered) * 9 // 10]

    def training_step(self, batch, batch_idx):
        (words,) = batch
        scores = self.head(self.gru(self.embed(words[:, :-1]))[0])
        losses = nn.functional.cross_entropy(scores.mT, words[:, 1:], reduction="none").mean(1)
        middle, high = self.spread(losses)  # cause
        loss = losses.mean()
        self.log_dict({"train_loss": loss, "middle": middle, "high": high})
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    lines = TensorDataset(torch.randint(WORDS, (64 * 200, LENGTH + 1)))
    data = DataLoader(lines, batch_size=24, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Words(keep_all=not run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
