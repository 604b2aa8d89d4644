"""What does the sentence feel? An LSTM whose curves go to TensorBoard.

Seen in Lightning-AI/pytorch-lightning issues 1986, "Logging dominating the training time", 7093.

cause: log_every_n_steps=1 sends every logged value to the logger in every step
right: says that writing to the logger costs the time, or a marked line; the change is to log less
accept: slow-logging @line
"""

import torch
from case import Module, Run, whole_batches
from lightning.pytorch.loggers import TensorBoardLogger
from torch import nn

STEPS, WORDS, LENGTH, FEELINGS = 400, 4000, 20, 6


class Feeling(Module):
    fused = True

    def __init__(self):
        super().__init__()
        self.words, self.lstm = nn.Embedding(WORDS, 64), nn.LSTM(64, 64, batch_first=True)
        self.head = nn.Linear(64, FEELINGS)

    def training_step(self, batch, batch_idx):
        words, feelings = batch
        scores = self.head(self.lstm(self.words(words))[0][:, -1])
        loss = nn.functional.cross_entropy(scores, feelings)
        chosen = scores.detach().argmax(dim=1)
        values = {"train_loss": loss, "accuracy": (chosen == feelings).float().mean()}
        for feeling in range(FEELINGS):
            values[f"share/{feeling}"] = (chosen == feeling).float().mean()
        self.log_dict(values)  # cause
        return loss


def main(run: Run) -> None:
    sentences = torch.randint(WORDS, (6000, LENGTH)), torch.randint(FEELINGS, (6000,))
    often = 50 if run.fixed else 1  # cause
    options = {"logger": TensorBoardLogger(run.root), "log_every_n_steps": often}  # cause
    run.fit(Feeling(), whole_batches(sentences, 32), **options)  # cause
