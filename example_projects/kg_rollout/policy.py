"""The policy, and its training by REINFORCE from collected walks."""

from dataclasses import dataclass

import lightning as L
import torch
from graph import ENTITIES, HOPS, RELATIONS
from torch import Tensor, nn


@dataclass
class Experience:
    """Steps of finished walks, each (steps,); `returned` is the reward still to come."""

    entity: Tensor
    answer: Tensor
    hop: Tensor
    relation: Tensor
    returned: Tensor


class Policy(L.LightningModule):
    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.gaps = nn.Embedding(ENTITIES, width)
        self.hops = nn.Embedding(HOPS, width)
        self.body = nn.Sequential(
            nn.Linear(2 * width, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU()
        )
        self.actions = nn.Linear(256, RELATIONS)
        self.register_buffer("found", torch.zeros(()), persistent=False)

    def forward(self, entity: Tensor, answer: Tensor, hop: Tensor) -> Tensor:
        """Return the logits (n, RELATIONS) of n steps."""
        parts = [self.gaps((answer - entity) % ENTITIES), self.hops(hop)]
        return self.actions(self.body(torch.cat(parts, dim=-1)))

    @torch.no_grad()
    def choose(self, entity: Tensor, answer: Tensor, hop: Tensor) -> Tensor:
        """Return a relation for each of n steps."""
        return torch.distributions.Categorical(logits=self(entity, answer, hop)).sample()

    def training_step(self, seen: Experience, batch_idx: int) -> Tensor:
        logits = self(seen.entity, seen.answer, seen.hop)
        chosen = logits.log_softmax(-1).gather(1, seen.relation[:, None]).squeeze(1)
        self.found = seen.returned.mean()
        advantage = seen.returned - seen.returned.mean()
        return -(advantage * chosen).mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)
