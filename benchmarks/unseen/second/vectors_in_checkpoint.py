"""Matching questions to answers over frozen word vectors.

cause: the frozen vectors are a persistent buffer, so each epoch's checkpoint writes them again
accept: slow-checkpoint @line
"""

import lightning as L
import torch
from case import Run, arguments
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 400
WORDS, SIZE, LENGTH = 60_000, 150, 24


class Matcher(L.LightningModule):
    def __init__(self, vectors: torch.Tensor, save_vectors: bool) -> None:
        super().__init__()
        self.register_buffer("vectors", vectors, persistent=save_vectors)  # cause
        self.question = nn.GRU(SIZE, 96, batch_first=True)
        self.answer = nn.GRU(SIZE, 96, batch_first=True)

    def embed(self, words):
        return nn.functional.embedding(words, self.vectors)

    def training_step(self, batch, batch_idx):
        questions, answers = batch
        _, q = self.question(self.embed(questions))
        _, a = self.answer(self.embed(answers))
        scores = q[0] @ a[0].T
        loss = nn.functional.cross_entropy(scores, torch.arange(len(scores)))
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    pairs = TensorDataset(*[torch.randint(WORDS, (640, LENGTH)) for _ in range(2)])
    data = DataLoader(pairs, batch_size=32, shuffle=True)
    model = Matcher(torch.randn(WORDS, SIZE), save_vectors=not run.fixed)
    newest = ModelCheckpoint(run.root / "newest")  # cause
    trainer = L.Trainer(callbacks=[newest, *run.callbacks], **run.trainer)  # cause
    trainer.fit(model, data)  # cause


if __name__ == "__main__":
    main(arguments(STEPS))
