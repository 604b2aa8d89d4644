"""What treats which disease? Embeddings of a knowledge graph, taught by facts and false triples.

seen in: pykeen/pykeen issue 273, "Improve negative triple filtering performance" ("currently
painfully slow"; the version with eq and any), and uma-pi1/kge pull request 70, "Faster negative
sampling"

cause: to leave out drawn triples that are true, each one is compared with all facts in every step
right: says that comparing the drawn triples with all facts costs the time (its eq or any, or its
    function, in training_step), or points at a marked line first; its change looks them up
    (sorted, hashed), filters seldom or not at all
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 1600
THINGS, KINDS, FACTS, WIDTH, WRONG = 4000, 20, 8000, 128, 3


class Facts(Dataset):
    """Hands out whole batches by their rows."""

    def __init__(self) -> None:
        self.rows = torch.randint(THINGS, (FACTS, 3))
        self.rows[:, 1] %= KINDS

    def __len__(self) -> int:
        return FACTS

    def __getitems__(self, indices):
        return self.rows[indices]


def number(triples):
    first, kind, second = triples.unbind(dim=-1)
    return (first * KINDS + kind) * THINGS + second


class Knowledge(L.LightningModule):
    def __init__(self, facts, look_up: bool) -> None:
        super().__init__()
        self.look_up = look_up
        self.register_buffer("known", number(facts).sort().values)
        self.things = nn.Embedding(THINGS, WIDTH)
        self.kinds = nn.Embedding(KINDS, WIDTH)

    def scores(self, triples):
        first, kind, second = triples.unbind(dim=-1)
        return (self.things(first) * self.kinds(kind) * self.things(second)).sum(dim=-1)

    def true(self, triples):
        numbers = number(triples)
        if self.look_up:
            places = torch.searchsorted(self.known, numbers).clamp(max=len(self.known) - 1)
            return self.known[places] == numbers
        return numbers[..., None].eq(self.known).any(dim=-1)  # cause

    def training_step(self, facts, batch_idx):
        drawn = facts[:, None].repeat(1, WRONG, 1)
        drawn[..., 2] = torch.randint(THINGS, drawn.shape[:2])
        false = ~self.true(drawn)  # cause
        right, wrong = self.scores(facts), self.scores(drawn)
        loss = nn.functional.softplus(-right).mean() + nn.functional.softplus(wrong[false]).mean()
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    facts = Facts()
    data = DataLoader(facts, batch_size=128, shuffle=True, collate_fn=torch.as_tensor)
    trainer = L.Trainer(callbacks=run.callbacks, **run.trainer)
    trainer.fit(Knowledge(facts.rows, run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
