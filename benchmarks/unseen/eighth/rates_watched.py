"""A small encoder of sentences is tuned, its lower layers more slowly than its upper ones.

seen in: a guise of: logging each step

cause: to see the first steps of the warm-up everything is logged at each step, and the monitor of
    the learning rates then writes three numbers for each of its 27 parameter groups
right: says that logging at every step is the cost (the monitor of learning rates, or the logger
    it writes to), or points at a marked line first; its change logs more seldom
"""

import lightning as L
import torch
from case import Run, arguments
from lightning.pytorch.callbacks import LearningRateMonitor
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 450
WORDS, LENGTH, WIDTH, DEPTH, TOPICS = 2000, 16, 64, 12, 7


class Sentences(Dataset):
    def __init__(self, count: int) -> None:
        self.words = torch.randint(WORDS, (count, LENGTH))
        self.topics = torch.randint(TOPICS, (count,))

    def __len__(self) -> int:
        return len(self.topics)

    def __getitems__(self, indices):
        return {"words": self.words[indices], "topics": self.topics[indices]}


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 4, 192, batch_first=True, norm_first=True)
            for _ in range(DEPTH)
        )
        self.head = nn.Linear(WIDTH, TOPICS)

    def forward(self, words):
        sentences = self.words(words)
        for layer in self.layers:
            sentences = layer(sentences)
        return self.head(sentences.mean(dim=1))


class Tuned(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = Encoder()

    def training_step(self, batch, batch_idx):
        loss = nn.functional.cross_entropy(self.encoder(batch["words"]), batch["topics"])
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        parts = [self.encoder.words, *self.encoder.layers, self.encoder.head]
        groups = []
        for height, part in enumerate(reversed(parts)):
            rate, matrices, rest = 1e-3 * 0.85**height, [], []
            for parameter in part.parameters():
                (matrices if parameter.ndim > 1 else rest).append(parameter)
            groups.append({"params": matrices, "lr": rate, "name": f"part{height}"})
            if rest:
                plain = {"params": rest, "lr": rate, "weight_decay": 0.0}
                groups.append({**plain, "name": f"part{height}_plain"})
        optimizer = torch.optim.AdamW(groups, fused=True)
        warm = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, (step + 1) / 100))
        return [optimizer], [{"scheduler": warm, "interval": "step"}]


def main(run: Run) -> None:
    data = DataLoader(Sentences(1600), batch_size=4, shuffle=True, collate_fn=lambda batch: batch)
    rates = LearningRateMonitor(log_momentum=True, log_weight_decay=True)  # cause
    trainer = L.Trainer(
        callbacks=[rates, *run.callbacks],
        log_every_n_steps=50 if run.fixed else 1,  # cause
        enable_checkpointing=False,
        **run.trainer,
    )
    trainer.fit(Tuned(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
