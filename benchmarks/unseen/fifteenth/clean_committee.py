"""How strong is the concrete, and how sure is that? A committee of networks under vmap, clean.

Five networks are trained as one: their weights lie stacked, one call computes all of them, and one
fused step moves them. Validation and a checkpoint come once in 60 steps.
"""

import lightning as L
import torch
from case import Run, arguments
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.func import functional_call, stack_module_state, vmap
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

STEPS = 150
MIXES, PARTS, BATCH, MEMBERS, WIDTH = 15360, 24, 256, 5, 256


def member():
    return nn.Sequential(
        nn.Linear(PARTS, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH), nn.SiLU(), nn.Linear(WIDTH, 2)
    )


class Committee(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        weights, _ = stack_module_state([member() for _ in range(MEMBERS)])
        self.names = list(weights)
        self.weights = nn.ParameterList(weights.values())
        self.form = [member().to("meta")]  # in a list, so that its weights are not this module's

    def forward(self, mixes):
        """Return what each member says of each mix: its strength and the log of its variance."""
        weights = dict(zip(self.names, self.weights, strict=True))
        one = vmap(lambda own, rows: functional_call(self.form[0], own, (rows,)), (0, None))
        return one(weights, mixes).unbind(dim=2)

    def training_step(self, batch, batch_idx):
        mixes, strengths = batch
        mean, spread = self(mixes)
        loss = 0.5 * (spread + (strengths - mean).square() / spread.exp()).mean(dim=1).sum()
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        mixes, strengths = batch
        mean, _ = self(mixes)
        self.log("val_loss", nn.functional.mse_loss(mean.mean(dim=0), strengths))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    mixes = torch.rand(MIXES + 1024, PARTS)
    strengths = mixes[:, :4].prod(dim=1) * 8 + mixes[:, 4:].mean(dim=1)
    strengths += 0.05 * torch.randn(len(mixes))
    learn = TensorDataset(mixes[:MIXES], strengths[:MIXES])
    check = TensorDataset(mixes[MIXES:], strengths[MIXES:])
    batches = BatchSampler(RandomSampler(learn), BATCH, drop_last=True)
    data = DataLoader(learn, sampler=batches, batch_size=None)
    checks = DataLoader(check, batch_size=512)
    trainer = L.Trainer(
        callbacks=[*run.callbacks, ModelCheckpoint(run.root, monitor="val_loss")],
        **run.trainer,
    )
    trainer.fit(Committee(), data, checks)


if __name__ == "__main__":
    main(arguments(STEPS))
