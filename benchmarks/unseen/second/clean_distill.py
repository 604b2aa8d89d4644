"""Distillation of an image classifier: frozen teacher without gradients, own accuracy callback.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

STEPS = 250


class Images(Dataset):
    """Whole batches, mirrored at random as they are picked."""

    def __init__(self, count: int) -> None:
        self.images = torch.rand(count, 3, 32, 32)
        self.labels = torch.randint(10, (count,))

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, picked: list[int]):
        images = self.images[picked]
        return images.flip(3) if torch.rand(()) < 0.5 else images, self.labels[picked]


class Agreement(L.Callback):
    """Counts how often student and teacher agree, and logs it once an epoch."""

    def on_train_epoch_start(self, trainer, pl_module):
        self.agreed, self.seen = torch.zeros((), dtype=torch.long), 0

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.agreed += outputs["agreed"]
        self.seen += len(batch[1])

    def on_train_epoch_end(self, trainer, pl_module):
        pl_module.log("agreement", self.agreed / self.seen)


def convolutions(width: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, width, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(2 * width, 10),
    )


class Distilled(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.student = convolutions(24)
        self.teacher = convolutions(48).requires_grad_(False)

    def on_train_start(self):
        self.teacher.eval()

    def training_step(self, batch, batch_idx):
        images, labels = batch
        with torch.no_grad():
            wanted = self.teacher(images)
        scores = self.student(images)
        soft = nn.functional.kl_div(
            scores.log_softmax(-1), wanted.log_softmax(-1), reduction="batchmean", log_target=True
        )
        loss = 0.7 * soft + 0.3 * nn.functional.cross_entropy(scores, labels)
        self.log("train_loss", loss)
        return {"loss": loss, "agreed": (scores.detach().argmax(1) == wanted.argmax(1)).sum()}

    def configure_optimizers(self):
        return torch.optim.SGD(self.student.parameters(), lr=0.05, momentum=0.9)


def main(run: Run) -> None:
    images = Images(4096)
    picks = BatchSampler(RandomSampler(images), 64, drop_last=True)
    data = DataLoader(images, sampler=picks, batch_size=None)
    callbacks = [Agreement(), *run.callbacks]
    L.Trainer(callbacks=callbacks, **run.trainer).fit(Distilled(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
