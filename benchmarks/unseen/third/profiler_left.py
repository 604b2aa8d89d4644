"""Chess positions read from their notation, scored by a network.

seen in: Lightning-AI/pytorch-lightning pull requests 782 and 837, on the AdvancedProfiler and what
it costs

cause: profiler="advanced", switched on for an afternoon, still follows every call of a function
accept: @line
"""

import random

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 300
PIECES = {piece: number for number, piece in enumerate("PNBRQKpnbrqk", 1)}


class Positions(Dataset):
    """Boards in Forsyth's notation, rank by rank."""

    def __init__(self, count: int) -> None:
        rng = random.Random(0)
        self.boards = ["/".join(self.rank(rng) for _ in range(8)) for _ in range(count)]

    def rank(self, rng: random.Random) -> str:
        return "".join(rng.choice("PNBRQKpnbrqk") if rng.random() < 0.4 else "1" for _ in range(8))

    def __len__(self) -> int:
        return len(self.boards)

    def __getitem__(self, i: int):
        squares = [PIECES.get(mark, 0) for mark in self.boards[i] if mark != "/"]
        return torch.tensor(squares), float(sum(piece < 7 for piece in squares) % 3 - 1)


class Scorer(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(13, 24)
        self.net = nn.Sequential(
            nn.Conv2d(24, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU()
        )
        self.out = nn.Linear(32 * 64, 1)

    def training_step(self, batch, batch_idx):
        squares, worth = batch
        board = self.embed(squares).mT.unflatten(2, (8, 8))
        guess = self.out(self.net(board).flatten(1)).squeeze(1).tanh()
        loss = nn.functional.mse_loss(guess, worth.float())
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    data = DataLoader(Positions(3200), batch_size=32, shuffle=True)
    options = {} if run.fixed else {"profiler": "advanced"}  # cause
    trainer = L.Trainer(callbacks=run.callbacks, **options, **run.trainer)  # cause
    trainer.fit(Scorer(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
