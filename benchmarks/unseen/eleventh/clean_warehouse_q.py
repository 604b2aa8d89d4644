"""Which shelf next? Q-learning from a robot's logged moves, with a slowly following target network.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

STEPS = 500
MOVES, SEEN, SHELVES, WIDTH, BATCH = 50_000, 60, 24, 384, 512


class Replay(IterableDataset):
    """Draws batches of moves, with replacement, without end."""

    def __init__(self) -> None:
        self.seen = torch.randn(MOVES + 1, SEEN)
        self.chosen = torch.randint(SHELVES, (MOVES,))
        self.reward = self.seen[:MOVES].gather(1, self.chosen[:, None]).squeeze(1)
        self.over = torch.rand(MOVES) < 0.02

    def __iter__(self):
        while True:
            at = torch.randint(MOVES, (BATCH,))
            yield self.seen[at], self.chosen[at], self.reward[at], self.seen[at + 1], self.over[at]


def worths() -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(SEEN, WIDTH),
        nn.ReLU(),
        nn.Linear(WIDTH, WIDTH),
        nn.ReLU(),
        nn.Linear(WIDTH, WIDTH),
        nn.ReLU(),
        nn.Linear(WIDTH, SHELVES),
    )


class Robot(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.online, self.target = worths(), worths()
        self.target.load_state_dict(self.online.state_dict())
        self.target.requires_grad_(False)

    def training_step(self, batch, batch_idx):
        seen, chosen, reward, then, over = batch
        with torch.no_grad():
            best = self.online(then).argmax(1, keepdim=True)
            later = self.target(then).gather(1, best).squeeze(1)
            aim = reward + 0.97 * later * ~over
        worth = self.online(seen).gather(1, chosen[:, None]).squeeze(1)
        loss = nn.functional.smooth_l1_loss(worth, aim)
        self.log_dict({"train_loss": loss, "worth": worth.detach().mean()})
        return loss

    def on_train_batch_end(self, outputs, batch, batch_idx):
        with torch.no_grad():
            torch._foreach_lerp_(
                list(self.target.parameters()), list(self.online.parameters()), 0.01
            )

    def configure_optimizers(self):
        return torch.optim.Adam(self.online.parameters(), lr=3e-4, fused=True)


def main(run: Run) -> None:
    data = DataLoader(Replay(), batch_size=None)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Robot(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
