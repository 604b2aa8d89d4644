"""Which kitchen is the recipe from? A transformer over its ingredients and steps, clean.

The recipes are of like length in a batch, so that little of it is padding.
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, Sampler

STEPS = 200
RECIPES, BATCH, WORDS, KITCHENS, WIDTH = 8000, 24, 2000, 14, 96


class Recipes(Dataset):
    def __init__(self) -> None:
        self.lengths = torch.randint(20, 64, (RECIPES,))
        self.recipes = [torch.randint(1, WORDS, (length,)) for length in self.lengths.tolist()]
        self.kitchens = torch.randint(0, KITCHENS, (RECIPES,)).tolist()

    def __len__(self):
        return RECIPES

    def __getitem__(self, index):
        return self.recipes[index], self.kitchens[index]


class AlikeInLength(Sampler):
    """Batches of recipes of like length, in a new order each epoch."""

    def __init__(self, lengths) -> None:
        self.lengths = lengths

    def __len__(self):
        return len(self.lengths) // BATCH

    def __iter__(self):
        order = (self.lengths + 4 * torch.rand(len(self.lengths))).argsort()
        batches = order[: len(self) * BATCH].view(-1, BATCH)
        yield from batches[torch.randperm(len(batches))].tolist()


def collate(items):
    recipes, kitchens = zip(*items, strict=True)
    return pad_sequence(list(recipes), batch_first=True), torch.tensor(kitchens)


class Kitchens(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH, padding_idx=0)
        self.places = nn.Parameter(0.02 * torch.randn(64, WIDTH))
        layer = nn.TransformerEncoderLayer(
            WIDTH, 4, 4 * WIDTH, batch_first=True, norm_first=True, activation="gelu"
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, KITCHENS)

    def training_step(self, batch, batch_idx):
        recipes, kitchens = batch
        padding = recipes == 0
        known = self.words(recipes) + self.places[: recipes.shape[1]]
        states = self.encoder(known, src_key_padding_mask=padding)
        there = (~padding)[..., None]
        pooled = (states * there).sum(dim=1) / there.sum(dim=1)
        loss = nn.functional.cross_entropy(self.head(pooled), kitchens)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=5e-4, fused=True)


def main(run: Run) -> None:
    recipes = Recipes()
    sampler = AlikeInLength(recipes.lengths)
    data = DataLoader(recipes, batch_sampler=sampler, collate_fn=collate)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Kitchens(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
