"""Who should answer the ticket? A text CNN over ids made beforehand, padded to each batch's need.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

STEPS = 480
WORDS, TEAMS, WIDTH = 5000, 9, 64


class Tickets(Dataset):
    def __init__(self, count: int) -> None:
        lengths = torch.randint(30, 70, (count,)).tolist()
        self.texts = [torch.randint(1, WORDS, (length,)) for length in lengths]
        self.teams = torch.randint(TEAMS, (count,))

    def __len__(self) -> int:
        return len(self.texts)

    def __getitems__(self, indices):
        return [self.texts[index] for index in indices], self.teams[indices]


def padded(batch):
    texts, teams = batch
    return pad_sequence(texts, batch_first=True), teams


class Team(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH, padding_idx=0)
        self.net = nn.Sequential(
            nn.Conv1d(WIDTH, 128, 5, padding=2),
            nn.ReLU(),
            nn.Conv1d(128, 128, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveMaxPool1d(1),
            nn.Flatten(),
            nn.Dropout(0.2),
            nn.Linear(128, TEAMS),
        )

    def training_step(self, batch, batch_idx):
        texts, teams = batch
        loss = nn.functional.cross_entropy(self.net(self.words(texts).mT), teams)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 2000)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


def main(run: Run) -> None:
    data = DataLoader(Tickets(3000), batch_size=24, shuffle=True, collate_fn=padded)
    trainer = L.Trainer(callbacks=run.callbacks, accumulate_grad_batches=2, **run.trainer)
    trainer.fit(Team(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
