"""Reading a price from hotel reviews, with an L2 penalty against overfitting.

cause: the penalty is a sum over all weights in the loss, where SGD's weight_decay does the same
accept: memory-bound-kernels @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 400
L2, WORDS = 1e-4, 2000


class PriceModel(L.LightningModule):
    def __init__(self, decay: bool) -> None:
        super().__init__()
        self.decay = decay
        self.net = nn.Sequential(
            nn.Linear(WORDS, 768), nn.ReLU(), nn.Linear(768, 512), nn.ReLU(), nn.Linear(512, 1)
        )

    def penalty(self):
        total = torch.zeros(())
        for parameter in self.parameters():  # cause
            total = total + parameter.pow(2).sum()  # cause
        return 0.5 * L2 * total

    def training_step(self, batch, batch_idx):
        words, price = batch
        loss = nn.functional.mse_loss(self.net(words).squeeze(1), price)
        self.log("train_loss", loss)
        if not self.decay:
            loss = loss + self.penalty()  # cause
        return loss

    def configure_optimizers(self):
        decay = L2 if self.decay else 0.0
        return torch.optim.SGD(self.parameters(), lr=0.01, momentum=0.9, weight_decay=decay)


def main(run: Run) -> None:
    reviews = TensorDataset((torch.rand(4000, WORDS) < 0.03).float(), torch.rand(4000))
    data = DataLoader(reviews, batch_size=64, shuffle=True)
    model = PriceModel(decay=run.fixed)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(model, data)


if __name__ == "__main__":
    main(arguments(STEPS))
