"""Headlines in two languages, a loader for each: one net for both, gradients over two batches.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 500
WORDS, LENGTH, WIDTH, TOPICS = 4000, 24, 64, 10


class Topics(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.ModuleDict(
            {language: nn.Embedding(WORDS, WIDTH) for language in ("english", "german")}
        )
        self.net = nn.Sequential(
            nn.Conv1d(WIDTH, 96, 3, padding=1),
            nn.ReLU(),
            nn.Conv1d(96, 96, 3, padding=1),
            nn.ReLU(),
        )
        self.head = nn.Linear(96, TOPICS)

    def training_step(self, batch, batch_idx):
        words = [self.words[language](lines) for language, (lines, _) in batch.items()]
        topics = torch.cat([topics for _, topics in batch.values()])
        scores = self.head(self.net(torch.cat(words).mT).amax(dim=2))
        loss = nn.functional.cross_entropy(scores, topics)
        self.log("train_loss", loss, batch_size=len(topics))
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def headlines(count: int) -> DataLoader:
    data = TensorDataset(torch.randint(WORDS, (count, LENGTH)), torch.randint(TOPICS, (count,)))
    return DataLoader(data, batch_size=48, shuffle=True, drop_last=True)


def main(run: Run) -> None:
    trainer = L.Trainer(callbacks=run.callbacks, accumulate_grad_batches=2, **run.trainer)
    trainer.fit(Topics(), {"english": headlines(3000), "german": headlines(1500)})


if __name__ == "__main__":
    main(arguments(STEPS))
