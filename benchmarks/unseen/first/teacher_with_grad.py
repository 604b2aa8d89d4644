"""Distillation: a small student learns from a wide teacher.

cause: the teacher runs with gradients on, so backward goes through it for nothing
accept: @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 250


def network(width: int, depth: int) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Linear(128, width), nn.ReLU()]
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 50))


class Distill(L.LightningModule):
    def __init__(self, frozen: bool) -> None:
        super().__init__()
        self.frozen = frozen
        self.teacher = network(768, 2)
        self.student = network(256, 4)

    def soft_targets(self, x):
        if self.frozen:
            with torch.no_grad():
                return (self.teacher(x) / 2.0).softmax(1)
        return (self.teacher(x) / 2.0).softmax(1)  # cause

    def training_step(self, batch, batch_idx):
        x, y = batch
        scores = self.student(x)
        target = self.soft_targets(x)  # cause
        soft = nn.functional.kl_div((scores / 2.0).log_softmax(1), target, reduction="batchmean")
        hard = nn.functional.cross_entropy(scores, y)
        self.log_dict({"soft": soft, "hard": hard})
        return hard + soft

    def configure_optimizers(self):
        return torch.optim.SGD(self.student.parameters(), lr=0.1, momentum=0.9)


def main(run: Run) -> None:
    examples = TensorDataset(torch.randn(8192, 128), torch.randint(50, (8192,)))
    data = DataLoader(examples, batch_size=256, shuffle=True)
    model = Distill(frozen=run.fixed)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(model, data)


if __name__ == "__main__":
    main(arguments(STEPS))
