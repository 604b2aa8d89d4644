"""Spam or not: messages through a small transformer.

cause: the collate pads every batch to 160 tokens, where messages have 50 on average
accept: @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 300
LONGEST, VOCABULARY = 160, 4000


class Messages(Dataset):
    def __init__(self, count: int) -> None:
        lengths = torch.exp(torch.randn(count) * 0.5 + 3.8).long().clamp(8, LONGEST)
        self.texts = [torch.randint(1, VOCABULARY, (int(n),)) for n in lengths]

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, i: int):
        return self.texts[i], i % 2


class Pad:
    """Makes a batch of texts of different lengths."""

    def __init__(self, to_longest_of_batch: bool) -> None:
        self.to_longest_of_batch = to_longest_of_batch

    def __call__(self, samples):
        texts, labels = zip(*samples, strict=True)
        width = max(map(len, texts)) if self.to_longest_of_batch else LONGEST  # cause
        ids = torch.zeros(len(texts), width, dtype=torch.long)  # cause
        for row, text in zip(ids, texts, strict=True):
            row[: len(text)] = text
        return ids, torch.tensor(labels)


class SpamFilter(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 96, padding_idx=0)
        self.position = nn.Embedding(LONGEST, 96)
        layer = nn.TransformerEncoderLayer(96, 4, 192, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(96, 2)

    def forward(self, ids):
        padding = ids == 0
        x = self.embed(ids) + self.position.weight[: ids.shape[1]]
        x = self.encoder(x, src_key_padding_mask=padding)
        return self.head(x.masked_fill(padding[..., None], 0).sum(1) / (~padding).sum(1)[:, None])

    def training_step(self, batch, batch_idx):
        ids, labels = batch
        loss = nn.functional.cross_entropy(self(ids), labels)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-4)


def main(run: Run) -> None:
    data = DataLoader(Messages(3000), batch_size=6, shuffle=True, collate_fn=Pad(run.fixed))
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(SpamFilter(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
