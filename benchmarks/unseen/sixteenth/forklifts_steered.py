"""How does a forklift drive safely? An actor learns from drives of others, weighed by a critic.

cause: a callback copies all weights before each step and works out by how much of its size each
    has changed, at every step, though only one step in fifty is logged
right: names the callback UpdateRatios (on_train_batch_start or on_train_batch_end, or its lines);
    its change is to copy and compare only at the steps that are logged

Seen in https://github.com/Lightning-AI/pytorch-lightning/issues/1462 (watching each parameter in
every step); the ratio of update to weight is known from lectures on training deep networks.
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

STEPS = 200
MOMENTS, SENSORS, WHEELS, BATCH, WIDTH, EVERY = 60000, 32, 3, 160, 384, 50


class UpdateRatios(L.Callback):
    """Logs how much of its own size each weight changes by in a step."""

    def __init__(self, fixed) -> None:
        self.fixed = fixed
        self.before: dict[str, torch.Tensor] = {}

    def wanted(self, batch_idx) -> bool:
        return not self.fixed or batch_idx % EVERY == 0

    def on_train_batch_start(self, trainer, module, batch, batch_idx) -> None:
        if self.wanted(batch_idx):
            named = module.named_parameters()
            self.before = {name: weight.detach().clone() for name, weight in named}  # cause

    @torch.no_grad()
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx) -> None:
        if not self.wanted(batch_idx):
            return
        ratios = {}
        for name, weight in module.named_parameters():
            change = (weight - self.before[name]).std()  # cause
            ratios[f"update/{name}"] = change / (weight.std() + 1e-9)  # cause
        if batch_idx % EVERY == 0:
            found = {name: float(ratio) for name, ratio in ratios.items()}
            trainer.logger.log_metrics(found, step=trainer.global_step)


def deep(inwards, outwards):
    layers = [nn.Linear(inwards, WIDTH), nn.LayerNorm(WIDTH), nn.SiLU()]
    for _ in range(2):
        layers += [nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.SiLU()]
    return nn.Sequential(*layers, nn.Linear(WIDTH, outwards))


class Forklift(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.actor = deep(SENSORS, WHEELS)
        self.critic = deep(SENSORS, 1)

    def training_step(self, batch, batch_idx):
        sensors, wheels, gains = batch
        worth = self.critic(sensors).squeeze(1)
        weight = ((gains - worth.detach()) / 0.5).exp().clamp(max=20)
        like = (self.actor(sensors) - wheels).square().sum(dim=1)
        loss = (weight * like).mean() + nn.functional.mse_loss(worth, gains)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=3e-4, fused=True)


def main(run: Run) -> None:
    sensors = torch.randn(MOMENTS, SENSORS)
    wheels = sensors[:, :WHEELS].tanh() + 0.1 * torch.randn(MOMENTS, WHEELS)
    drives = TensorDataset(sensors, wheels, sensors[:, :8].mean(dim=1))
    batches = BatchSampler(RandomSampler(drives), BATCH, drop_last=True)
    data = DataLoader(drives, sampler=batches, batch_size=None)
    callbacks = [*run.callbacks, UpdateRatios(run.fixed)]
    trainer = L.Trainer(callbacks=callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Forklift(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
