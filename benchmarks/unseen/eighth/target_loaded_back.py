"""Bird calls without labels: one network guesses what its own slow average hears in another cut.

seen in: a guise of: averaged/EMA weights by hand

cause: before each zero_grad the target is averaged by way of two state dicts, a dict of mixtures
    and load_state_dict, tensor by tensor
right: says that averaging the weights (the target network, EMA) by hand is what costs, or points
    at a marked line first; its change does it in place, for all tensors at once, or more seldom
"""

from copy import deepcopy

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 450
LONG, CUT = 2400, 1600


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(width, width, 3, padding=1, groups=4),
            nn.GroupNorm(4, width),
            nn.GELU(),
            nn.Conv1d(width, width, 1),
        )

    def forward(self, calls):
        return calls + self.net(calls)


def encoder() -> nn.Sequential:
    blocks = [Block(64) for _ in range(12)]
    first = nn.Conv1d(1, 64, 16, stride=16)
    return nn.Sequential(
        first, *blocks, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(64, 128), nn.LayerNorm(128)
    )


class Calls(Dataset):
    def __init__(self, count: int) -> None:
        self.calls = torch.randn(count, LONG)

    def __len__(self) -> int:
        return len(self.calls)

    def __getitems__(self, indices):
        return self.calls[indices]


class Listener(L.LightningModule):
    def __init__(self, in_place: bool) -> None:
        super().__init__()
        self.in_place, self.decay = in_place, 0.99
        self.online = encoder()
        self.target = deepcopy(self.online).requires_grad_(False)
        self.guess = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 128))

    def training_step(self, calls, batch_idx):
        one, other = (calls[:, None, start : start + CUT] for start in torch.randint(800, (2,)))
        with torch.no_grad():
            heard = self.target(other)
        loss = 2 - 2 * nn.functional.cosine_similarity(self.guess(self.online(one)), heard).mean()
        self.log("train_loss", loss)
        return loss

    @torch.no_grad()
    def on_before_zero_grad(self, optimizer):
        if self.in_place:
            slow, fast = list(self.target.parameters()), list(self.online.parameters())
            torch._foreach_lerp_(slow, fast, 1 - self.decay)
            return
        slow, fast = self.target.state_dict(), self.online.state_dict()  # cause
        mixed = {
            key: self.decay * slow[key] + (1 - self.decay) * fast[key] for key in slow
        }  # cause
        self.target.load_state_dict(mixed)  # cause

    def configure_optimizers(self):
        learned = [*self.online.parameters(), *self.guess.parameters()]
        return torch.optim.AdamW(learned, lr=5e-4, fused=True)


def main(run: Run) -> None:
    data = DataLoader(Calls(1500), batch_size=12, shuffle=True, collate_fn=lambda batch: batch)
    trainer = L.Trainer(callbacks=run.callbacks, **run.trainer)
    trainer.fit(Listener(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
