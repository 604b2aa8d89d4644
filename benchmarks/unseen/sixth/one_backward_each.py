"""Depth, edges and kinds of surfaces in a room: one trunk with three heads, optimized by hand.

seen in: a thread on discuss.pytorch.org (28162), "Multi-task learning: what's the difference
between jointly backward and backward with retain_graph=True?", and neulab/xnmt pull request 410
(a backward for each task, where one for all "can bring speed-ups")

cause: each of the three losses has a backward of its own, and each goes through the trunk again
right: says that backward runs several times through the same network in a step (retain_graph, or
    the trunk's gradients computed again and again), or points at a marked line first; its change
    adds the losses up for one backward
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 320
SIDE, KINDS = 40, 8


def head(out: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(24, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, out, 1))


class Room(L.LightningModule):
    def __init__(self, together: bool) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.together = together
        self.trunk = nn.Sequential(
            nn.Conv2d(3, 24, 5, padding=2),
            nn.ReLU(),
            nn.Conv2d(24, 24, 3, padding=1),
            nn.ReLU(),
        )
        self.depth, self.edges, self.kinds = head(1), head(1), head(KINDS)

    def losses(self, batch):
        rooms, depth, edges, kinds = batch
        features = self.trunk(rooms)
        return {
            "depth": nn.functional.l1_loss(self.depth(features), depth),
            "edges": nn.functional.binary_cross_entropy_with_logits(self.edges(features), edges),
            "kinds": nn.functional.cross_entropy(self.kinds(features), kinds),
        }

    def training_step(self, batch, batch_idx):
        optimizer = self.optimizers()
        losses = self.losses(batch)
        optimizer.zero_grad()
        if self.together:
            self.manual_backward(sum(losses.values()))
        else:
            for loss in losses.values():
                self.manual_backward(loss, retain_graph=True)  # cause
        optimizer.step()
        self.log_dict(losses)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    rooms = TensorDataset(
        torch.rand(400, 3, SIDE, SIDE),
        torch.rand(400, 1, SIDE, SIDE),
        torch.randint(2, (400, 1, SIDE, SIDE)).float(),
        torch.randint(KINDS, (400, SIDE, SIDE)),
    )
    data = DataLoader(rooms, batch_size=8, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Room(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
