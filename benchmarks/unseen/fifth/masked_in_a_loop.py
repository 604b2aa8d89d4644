"""What does the visitor watch next? A transformer that guesses masked films of a history.

seen in: wzzzd/pretrain_bert_with_maskLM issue 3 (masking by one tensor of chances "should be much
faster"), and the datasets of several BERT4Rec repositories

cause: __getitem__ decides film by film in a Python loop which are masked
right: names the fetching of items in the loader, or the lines of that loop; its change takes the
    work out of the step (masks by whole tensors, or worker processes)
"""

import random

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 200
FILMS, LENGTH, WIDTH, NONE = 3000, 60, 64, -100
MASK = FILMS


class Histories(Dataset):
    def __init__(self, films, by_tensor: bool) -> None:
        self.films, self.by_tensor = films, by_tensor

    def __len__(self) -> int:
        return len(self.films)

    def __getitem__(self, index):
        films = self.films[index].clone()
        labels = torch.full_like(films, NONE)
        if self.by_tensor:
            return masked(films, labels)
        for place, film in enumerate(films):  # cause
            chance = random.random()  # cause
            if chance < 0.2:  # cause
                labels[place] = film  # cause
                if chance < 0.16:  # cause
                    films[place] = MASK  # cause
                elif chance < 0.18:  # cause
                    films[place] = random.randrange(FILMS)  # cause
        return films, labels


def masked(films, labels):
    chance = torch.rand(len(films))
    labels = torch.where(chance < 0.2, films, labels)
    films = films.masked_fill(chance < 0.16, MASK)
    swapped = (chance >= 0.16) & (chance < 0.18)
    return torch.where(swapped, torch.randint(FILMS, films.shape), films), labels


class Watcher(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.films = nn.Embedding(FILMS + 1, WIDTH)
        self.places = nn.Parameter(torch.zeros(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 2 * WIDTH, 0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1)

    def training_step(self, batch, batch_idx):
        films, labels = batch
        states = self.encoder(self.films(films) + self.places)
        asked = labels != NONE
        scores = states[asked] @ self.films.weight[:FILMS].T
        loss = nn.functional.cross_entropy(scores, labels[asked])
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    histories = Histories(torch.randint(FILMS, (2500, LENGTH)), run.fixed)
    data = DataLoader(histories, batch_size=48, shuffle=True, drop_last=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Watcher(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
