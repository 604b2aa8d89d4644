"""Which drug acts on which gene? Embeddings of a graph of facts, none longer than one.

cause: nn.Embedding(max_norm=1.0) shortens the vectors that it looks up in a loop over them, with
    a norm and a comparison of its own for each, in every forward
right: names the look-up in the embedding with max_norm (embedding_renorm_); its change is to
    shorten all looked-up vectors at once (norm, clamp, one write), or the whole table after a step

Seen in https://github.com/pytorch/pytorch/issues/1278; for the loop on a CPU see
https://github.com/pytorch/pytorch/pull/28546.
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

STEPS = 150
THINGS, RELATIONS, FACTS, BATCH, FALSE, WIDTH = 9000, 12, 60000, 256, 24, 96


class Things(nn.Module):
    """Vectors of drugs, genes and diseases, kept in the unit ball."""

    def __init__(self, fixed) -> None:
        super().__init__()
        self.fixed = fixed
        self.table = nn.Embedding(THINGS, WIDTH, max_norm=None if fixed else 1.0)
        nn.init.normal_(self.table.weight, std=0.13)

    @torch.no_grad()
    def shorten(self, things):
        rows = things.unique()
        vectors = self.table.weight[rows]
        norms = vectors.norm(dim=1, keepdim=True)
        scales = torch.where(norms > 1, 1 / (norms + 1e-7), 1.0)
        self.table.weight.index_copy_(0, rows, vectors * scales)

    def forward(self, things):
        if self.fixed:
            self.shorten(things)
        return self.table(things)  # cause


class Facts(L.LightningModule):
    def __init__(self, fixed) -> None:
        super().__init__()
        self.things = Things(fixed)
        self.relations = nn.Embedding(RELATIONS, WIDTH)
        self.turn = nn.Sequential(
            nn.Linear(2 * WIDTH, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU()
        )
        self.out = nn.Linear(256, WIDTH)

    def training_step(self, facts, batch_idx):
        head, relation, tail = facts[0].unbind(dim=1)
        false = torch.randint(0, THINGS, (len(head), FALSE), device=head.device)
        found = self.things(torch.cat([head[:, None], tail[:, None], false], dim=1))
        asked = torch.cat([found[:, 0], self.relations(relation)], dim=1)
        answer = self.out(self.turn(asked)).unsqueeze(1)
        far = (answer - found[:, 1:]).square().sum(dim=2)
        loss = nn.functional.cross_entropy(-far, torch.zeros_like(head))
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    heads = torch.randint(0, THINGS, (FACTS,))
    relations = torch.randint(0, RELATIONS, (FACTS,))
    facts = torch.stack([heads, relations, (heads * 7 + relations) % THINGS], dim=1)
    known = TensorDataset(facts)
    batches = BatchSampler(RandomSampler(known), BATCH, drop_last=True)
    data = DataLoader(known, sampler=batches, batch_size=None)
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Facts(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
