"""Which insect hums? Few-shot learning from sounds: each class is the mean of its examples.

cause: training_step goes through the classes of an episode in a Python loop and picks each one's
    examples with a boolean mask, for their mean and for their spread; backward scatters into a
    tensor of the whole episode for each mask
right: names the loop over classes in by_class (boolean masks or small operators, or their backward
    with index_put); its change is to sum all classes at once with index_add (or a product with the
    one-hot labels) and to divide by their counts

Seen in https://github.com/nadavbh12/VQ-VAE/pull/4 (a loop over the kinds and their masks) and
https://github.com/pytorch/pytorch/issues/57515 (what boolean masks cost).
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

STEPS = 200
SOUNDS, BANDS, MOMENTS, CLASSES, BATCH, WIDTH = 6000, 40, 32, 64, 160, 64


def by_class(vectors, classes):
    """Return each class's mean vector, and how far its examples lie from it."""
    means, spreads = [], []
    for one in range(CLASSES):
        own = vectors[classes == one]  # cause
        mean = own.sum(dim=0) / max(1, len(own))  # cause
        means.append(mean)
        spreads.append((own - mean).square().sum())  # cause
    return torch.stack(means), torch.stack(spreads).sum()


def by_class_at_once(vectors, classes):
    counts = torch.bincount(classes, minlength=CLASSES).clamp(min=1)
    sums = vectors.new_zeros(CLASSES, vectors.shape[1]).index_add(0, classes, vectors)
    means = sums / counts.unsqueeze(1)
    return means, (vectors - means.index_select(0, classes)).square().sum()


class Insects(L.LightningModule):
    def __init__(self, fixed) -> None:
        super().__init__()
        self.by_class = by_class_at_once if fixed else by_class
        self.net = nn.Sequential(
            nn.Conv1d(BANDS, 64, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool1d(2),
            nn.Conv1d(64, 64, 5, padding=2),
            nn.ReLU(),
            nn.AdaptiveAvgPool1d(1),
            nn.Flatten(),
            nn.Linear(64, WIDTH),
        )

    def training_step(self, batch, batch_idx):
        sounds, classes = batch
        vectors = self.net(sounds)
        half = len(vectors) // 2
        means, spread = self.by_class(vectors[:half], classes[:half])
        far = torch.cdist(vectors[half:], means).square()
        loss = nn.functional.cross_entropy(-far, classes[half:]) + 1e-3 * spread / half
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    classes = torch.randint(0, CLASSES, (SOUNDS,))
    hums = torch.randn(CLASSES, BANDS, 1)
    sounds = TensorDataset(hums[classes] + torch.randn(SOUNDS, BANDS, MOMENTS), classes)
    batches = BatchSampler(RandomSampler(sounds), BATCH, drop_last=True)
    data = DataLoader(sounds, sampler=batches, batch_size=None)
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Insects(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
