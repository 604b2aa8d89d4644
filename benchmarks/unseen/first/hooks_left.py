"""A residual CNN; hooks for a look at its activations were never taken off.

cause: forward hooks on every layer compute mean, std, quantiles and a histogram in each step
accept: host-bound @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 170


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.one = nn.Conv2d(width, width, 3, padding=1)
        self.two = nn.Conv2d(width, width, 3, padding=1)
        self.act = nn.ReLU()

    def forward(self, x):
        return self.act(x + self.two(self.act(self.one(x))))


class Watch:
    """Keeps statistics of what each layer gives."""

    def __init__(self, model: nn.Module) -> None:
        self.stats: dict[str, dict] = {}
        for name, module in model.named_modules():
            if isinstance(module, (nn.Conv2d, nn.ReLU)):
                module.register_forward_hook(self.hook(name))

    def hook(self, name: str):
        def look(module, args, out):
            values = out.detach().flatten()
            self.stats[name] = {
                "mean": values.mean(), "std": values.std(),  # cause
                "dead": (values == 0).float().mean(),  # cause
                "range": torch.quantile(values[:20000], torch.tensor([0.01, 0.99])),  # cause
                "histogram": torch.histc(values, bins=64),  # cause
            }  # fmt: skip

        return look


class ResNet(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 24, 3, 2, 1)
        self.body = nn.Sequential(*[Residual(24) for _ in range(3)])
        self.head = nn.Linear(24, 10)

    def training_step(self, batch, batch_idx):
        x, y = batch
        scores = self.head(self.body(self.stem(x)).mean((2, 3)))  # cause
        loss = nn.functional.cross_entropy(scores, y)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)


def main(run: Run) -> None:
    images = TensorDataset(torch.rand(1024, 3, 32, 32), torch.randint(10, (1024,)))
    model = ResNet()
    if not run.fixed:
        model.watch = Watch(model)
    data = DataLoader(images, batch_size=24, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(model, data)


if __name__ == "__main__":
    main(arguments(STEPS))
