"""What does the caller want? A transformer over calls to a town hall, rare wishes drawn more often.

cause: the sampler counts the labels and works out the weight of each of its 45000 calls in Python
    at the start of every epoch of 50 steps, though labels never change
right: names ByRarity.__iter__ or weights (the sampler, the start of an epoch, the wait for its
    first batch) at a marked line; its change makes the weights once
"""

from collections import Counter

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler

STEPS = 300
CALLS, WORDS, LENGTH, WISHES, BATCH, PER_EPOCH = 45_000, 2000, 24, 40, 16, 50


class Calls(Dataset):
    def __init__(self) -> None:
        common = 1 / torch.arange(1, WISHES + 1)
        self.wishes = torch.multinomial(common, CALLS, replacement=True)
        self.words = torch.randint(1, WORDS, (CALLS, LENGTH))
        self.words[:, 0] = self.wishes + 1

    def __len__(self) -> int:
        return CALLS

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.words[index], self.wishes[index]


class ByRarity(Sampler):
    """Draws some calls for each epoch, a call of a rare wish more probably."""

    def __init__(self, calls: Calls, once: bool) -> None:
        self.calls = calls
        self.kept = self.weights() if once else None

    def __len__(self) -> int:
        return PER_EPOCH * BATCH

    def weights(self) -> torch.Tensor:
        labels = [int(wish) for wish in self.calls.wishes]  # cause
        counted = Counter(labels)
        return torch.tensor([1 / counted[label] for label in labels])  # cause

    def __iter__(self):
        weights = self.weights() if self.kept is None else self.kept  # cause
        return iter(torch.multinomial(weights, len(self), replacement=True).tolist())


class Wishes(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, 96)
        self.place = nn.Parameter(0.02 * torch.randn(LENGTH, 96))
        layer = nn.TransformerEncoderLayer(96, 4, 256, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(96, WISHES)

    def training_step(self, batch, batch_idx):
        words, wishes = batch
        encoded = self.encoder(self.embed(words) + self.place)
        loss = nn.functional.cross_entropy(self.head(encoded.mean(dim=1)), wishes)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=5e-4, fused=True)


def main(run: Run) -> None:
    calls = Calls()
    data = DataLoader(
        calls,
        batch_size=BATCH,
        sampler=ByRarity(calls, once=run.fixed),
        num_workers=2,
        persistent_workers=True,
    )
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Wishes(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
