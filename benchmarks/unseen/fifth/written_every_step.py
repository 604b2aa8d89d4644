"""What does the sentence feel? An LSTM whose curves go to TensorBoard.

seen in: Lightning-AI/pytorch-lightning issues 1986, "Logging dominating the training time", and
7093 ("making things quite a bit worse by log_every_n_steps=1")

cause: log_every_n_steps=1 sends every logged value to the logger in every step
right: says that logging (writing to the logger) costs the time, or points at a marked line; its
    change is to log less often, which includes a larger log_every_n_steps
"""

import lightning as L
import torch
from case import Run, arguments
from lightning.pytorch.loggers import TensorBoardLogger
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 400
WORDS, LENGTH, FEELINGS = 4000, 20, 6


class Sentences(Dataset):
    def __init__(self, words, feelings) -> None:
        self.words, self.feelings = words, feelings

    def __len__(self) -> int:
        return len(self.words)

    def __getitems__(self, indices):
        return self.words[indices], self.feelings[indices]


class Feeling(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, 64)
        self.lstm = nn.LSTM(64, 64, batch_first=True)
        self.head = nn.Linear(64, FEELINGS)

    def training_step(self, batch, batch_idx):
        words, feelings = batch
        scores = self.head(self.lstm(self.words(words))[0][:, -1])
        losses = nn.functional.cross_entropy(scores, feelings, reduction="none")
        chosen = scores.detach().argmax(dim=1)
        values = {"train_loss": losses.mean(), "accuracy": (chosen == feelings).float().mean()}
        for feeling in range(FEELINGS):
            values[f"share/{feeling}"] = (chosen == feeling).float().mean()
        self.log_dict(values)  # cause
        return losses.mean()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    sentences = Sentences(torch.randint(WORDS, (6000, LENGTH)), torch.randint(FEELINGS, (6000,)))
    data = DataLoader(sentences, batch_size=32, shuffle=True, collate_fn=tuple, drop_last=True)
    trainer = L.Trainer(
        callbacks=run.callbacks,
        logger=TensorBoardLogger(run.root),  # cause
        log_every_n_steps=50 if run.fixed else 1,  # cause
        **run.trainer,
    )
    trainer.fit(Feeling(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
