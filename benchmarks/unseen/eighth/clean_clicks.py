"""Will the advert be clicked on? Batches taken whole, gradients of two added up, validated seldom.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from lightning.pytorch.callbacks import EarlyStopping, LearningRateMonitor
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchmetrics.classification import BinaryAUROC

STEPS = 280  # of two batches each
FIELDS, VALUES, NUMBERS, WIDTH = 16, 800, 10, 16


class Shown(Dataset):
    def __init__(self, count: int) -> None:
        first = torch.arange(FIELDS) * VALUES
        self.values = torch.randint(VALUES, (count, FIELDS)) + first
        self.numbers = torch.rand(count, NUMBERS)
        self.clicked = torch.randint(2, (count,))

    def __len__(self) -> int:
        return len(self.clicked)

    def __getitems__(self, indices):
        return {
            "values": self.values[indices],
            "numbers": self.numbers[indices],
            "clicked": self.clicked[indices],
        }


class Adverts(L.LightningDataModule):
    def loader(self, count: int, shuffle: bool) -> DataLoader:
        return DataLoader(Shown(count), 256, shuffle=shuffle, collate_fn=lambda batch: batch)

    def train_dataloader(self):
        return self.loader(256 * 400, shuffle=True)

    def val_dataloader(self):
        return self.loader(256 * 8, shuffle=False)


class Clicks(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.values = nn.Embedding(FIELDS * VALUES, WIDTH)
        self.crossed = nn.ModuleList(nn.Linear(FIELDS * WIDTH + NUMBERS, 266) for _ in range(2))
        self.deep = nn.Sequential(
            nn.Linear(266, 384), nn.ReLU(), nn.Dropout(0.1), nn.Linear(384, 128), nn.ReLU()
        )
        self.head = nn.Linear(128, 1)
        self.auroc = BinaryAUROC(thresholds=100)

    def forward(self, batch):
        first = torch.cat([self.values(batch["values"]).flatten(1), batch["numbers"]], dim=1)
        state = first
        for layer in self.crossed:
            state = torch.addcmul(state, first, layer(state))
        return self.head(self.deep(state))[:, 0]

    def training_step(self, batch, batch_idx):
        told = self(batch)
        loss = nn.functional.binary_cross_entropy_with_logits(told, batch["clicked"].float())
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.auroc.update(self(batch), batch["clicked"])
        self.log("auroc", self.auroc, on_epoch=True)

    def configure_optimizers(self):
        matrices = [each for each in self.parameters() if each.ndim > 1]
        rest = [each for each in self.parameters() if each.ndim == 1]
        groups = [{"params": matrices, "weight_decay": 1e-4}, {"params": rest, "weight_decay": 0.0}]
        optimizer = torch.optim.AdamW(groups, lr=1e-3, fused=True)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=1000)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


def main(run: Run) -> None:
    watched = [LearningRateMonitor(), EarlyStopping("auroc", mode="max", patience=20)]
    trainer = L.Trainer(
        callbacks=[*watched, *run.callbacks],
        accumulate_grad_batches=2,
        gradient_clip_val=1.0,
        val_check_interval=200,
        **run.trainer,
    )
    trainer.fit(Clicks(), Adverts())


if __name__ == "__main__":
    main(arguments(STEPS))
