"""Which film next? Two towers of embeddings, on a machine lent by the hour.

seen in: a guise of: frequent checkpoint

cause: the machine may be taken away at any time, so a checkpoint (with Adam's moments of all the
    embeddings) is written each second: ModelCheckpoint counts time here, not steps
right: says that checkpoints are written too often, or points at a marked line first; its change
    writes them more seldom
"""

from datetime import timedelta

import lightning as L
import torch
from case import Run, arguments
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 600
USERS, FILMS, WIDTH = 35000, 20000, 64


class Visits(Dataset):
    def __init__(self, count: int) -> None:
        self.users, self.films = torch.randint(USERS, (count,)), torch.randint(FILMS, (count,))
        self.hour = torch.randint(24, (count,))

    def __len__(self) -> int:
        return len(self.users)

    def __getitems__(self, indices):
        return {
            "user": self.users[indices],
            "film": self.films[indices],
            "hour": self.hour[indices],
        }


class Towers(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.users, self.films = nn.Embedding(USERS, WIDTH), nn.Embedding(FILMS, WIDTH)
        self.hours = nn.Embedding(24, WIDTH)
        self.user_tower = nn.Sequential(
            nn.Linear(2 * WIDTH, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 64)
        )
        self.film_tower = nn.Sequential(nn.Linear(WIDTH, 256), nn.ReLU(), nn.Linear(256, 64))

    def training_step(self, batch, batch_idx):
        asking = torch.cat([self.users(batch["user"]), self.hours(batch["hour"])], dim=1)
        scores = self.user_tower(asking) @ self.film_tower(self.films(batch["film"])).T
        loss = nn.functional.cross_entropy(scores / 8, torch.arange(len(scores)))
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        return {"optimizer": optimizer, "lr_scheduler": schedule}


def main(run: Run) -> None:
    visits = Visits(512 * 200)
    data = DataLoader(visits, batch_size=512, shuffle=True, collate_fn=lambda batch: batch)
    often = timedelta(minutes=20) if run.fixed else timedelta(seconds=1)  # cause
    saved = ModelCheckpoint(run.root / "saved", train_time_interval=often)  # cause
    trainer = L.Trainer(callbacks=[saved, *run.callbacks], **run.trainer)
    trainer.fit(Towers(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
