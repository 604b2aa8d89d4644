"""Which team gets the ticket? A transformer whose batches hold as many tickets of each team.

cause: the batch sampler, which runs in the training process although the loader has a worker,
    looks through the labels of all tickets in Python for each team of each batch
right: names the loop of the batch sampler (Balanced.__iter__), not the worker; its change is to
    collect each team's tickets once, in __init__; more workers is no help
"""

import random

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 300
COUNT, TEAMS, EACH = 36000, 12, 8
WORDS, LENGTH = 4000, 32


class Tickets(Dataset):
    def __init__(self) -> None:
        self.teams = torch.randint(0, TEAMS, (COUNT,))
        self.words = torch.randint(0, WORDS - TEAMS, (COUNT, LENGTH))
        self.words[:, :3] = WORDS - TEAMS + self.teams[:, None]

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        return self.words[index], self.teams[index]


class Balanced:
    """Yields batches of EACH tickets of each team, drawn at random."""

    def __init__(self, teams, fixed) -> None:
        self.teams = teams.tolist()
        self.fixed = fixed
        self.of_team = [[] for _ in range(TEAMS)]
        for index, team in enumerate(self.teams):
            self.of_team[team].append(index)

    def __len__(self):
        return COUNT // (TEAMS * EACH)

    def __iter__(self):
        for _ in range(len(self)):
            batch = []
            for team in range(TEAMS):
                if self.fixed:
                    of_team = self.of_team[team]
                else:
                    of_team = [i for i, other in enumerate(self.teams) if other == team]  # cause
                batch += random.sample(of_team, EACH)
            yield batch


class Router(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 64)
        layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.out = nn.Linear(64, TEAMS)

    def training_step(self, batch, batch_idx):
        words, teams = batch
        guessed = self.out(self.encoder(self.embedding(words)).mean(dim=1))
        loss = nn.functional.cross_entropy(guessed, teams)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    tickets = Tickets()
    data = DataLoader(
        tickets,
        batch_sampler=Balanced(tickets.teams, run.fixed),
        num_workers=1,
        persistent_workers=True,
    )
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Router(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
