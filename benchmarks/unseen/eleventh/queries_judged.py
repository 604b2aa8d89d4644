"""Which answer fits the question? Two towers trained in-batch, judged on a held-out pool.

cause: the held-out pool is gone through every 15 steps, ten times an epoch
right: time in validation; names val_check_interval=15 or the validation (or a marked line); the
    change validates less often (each epoch), or on fewer batches
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 300
PAIRS, HELD, WORDS, LENGTH, WIDTH = 4800, 1536, 4000, 24, 128


class Pairs(Dataset):
    def __init__(self, count: int) -> None:
        topics = torch.randint(WORDS - 50, (count, 1))
        self.questions = topics + torch.randint(50, (count, LENGTH))
        self.answers = topics + torch.randint(50, (count, LENGTH))

    def __len__(self):
        return len(self.questions)

    def __getitem__(self, index):
        return self.questions[index], self.answers[index]


class Tower(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.mix = nn.Sequential(
            nn.Conv1d(WIDTH, WIDTH, 3, padding=1), nn.GELU(), nn.Conv1d(WIDTH, WIDTH, 3, padding=1)
        )

    def forward(self, text):
        mixed = self.mix(self.words(text).transpose(1, 2)).amax(2)
        return nn.functional.normalize(mixed, dim=1)


class Retriever(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.question, self.answer = Tower(), Tower()
        self.warmth = nn.Parameter(torch.tensor(3.0))

    def scores(self, batch):
        questions, answers = batch
        return self.warmth.exp() * self.question(questions) @ self.answer(answers).T

    def training_step(self, batch, batch_idx):
        scores = self.scores(batch)
        loss = nn.functional.cross_entropy(scores, torch.arange(len(scores), device=self.device))
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        scores = self.scores(batch)
        right = scores.diagonal()[:, None]
        rank = (scores > right).sum(1) + 1
        self.log("val_mrr", (1 / rank).mean(), batch_size=len(rank))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    train = DataLoader(Pairs(PAIRS), batch_size=32, shuffle=True, drop_last=True)
    held = DataLoader(Pairs(HELD), batch_size=64)
    trainer = L.Trainer(
        callbacks=run.callbacks,
        val_check_interval=1.0 if run.fixed else 15,  # cause
        num_sanity_val_steps=0,
        **run.trainer,
    )
    trainer.fit(Retriever(), train, held)


if __name__ == "__main__":
    main(arguments(STEPS))
