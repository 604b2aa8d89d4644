"""Which of twenty thousand articles follow from the ones in the basket?

seen in: Lightning-AI/pytorch-lightning issue 6534, "Option of doing
optimizer.zero_grad(set_to_none=True)"

cause: gradients are filled with zeros after each step, and backward then adds to these
accept: zeroed-gradients @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 120
ARTICLES, WIDTH = 20_000, 128


class Baskets(L.LightningModule):
    def __init__(self, forget: bool) -> None:
        super().__init__()
        self.forget = forget
        self.articles = nn.EmbeddingBag(ARTICLES, WIDTH)
        self.hidden = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())
        self.next = nn.Linear(WIDTH, ARTICLES)

    def training_step(self, batch, batch_idx):
        baskets, following = batch
        scores = self.next(self.hidden(self.articles(baskets)))
        loss = nn.functional.cross_entropy(scores, following)
        self.log("train_loss", loss)
        return loss

    def optimizer_zero_grad(self, epoch, batch_idx, optimizer):
        optimizer.zero_grad(set_to_none=self.forget)  # cause

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main(run: Run) -> None:
    baskets = TensorDataset(torch.randint(ARTICLES, (640, 12)), torch.randint(ARTICLES, (640,)))
    data = DataLoader(baskets, batch_size=16, shuffle=True)
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Baskets(forget=run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
