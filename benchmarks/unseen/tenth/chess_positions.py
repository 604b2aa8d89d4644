"""Who stands better? A convolutional net that values chess positions written as FEN strings.

cause: the dataset's __getitem__ parses the FEN string into planes, square by square in Python, each
    time that the position is drawn
right: names planes or the dataset's __getitem__ (loading the data), or points at a marked line
    first; its change parses each position once beforehand, writes the planes vectorised, or parses
    in the loader's workers
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 400
COUNT, BATCH = 3200, 32
PIECES = "PNBRQKpnbrqk"


def planes(fen):
    board, mover = fen.split(" ")
    out = torch.zeros(13, 8, 8)
    for row, rank in enumerate(board.split("/")):
        column = 0
        for letter in rank:  # cause
            if letter.isdigit():
                column += int(letter)
            else:
                out[PIECES.index(letter), row, column] = 1.0  # cause
                column += 1
    if mover == "b":
        out[12] = 1.0
    return out


class Positions(Dataset):
    def __init__(self, fens, values, parsed) -> None:
        self.fens = fens
        self.values = torch.tensor(values)
        self.parsed = torch.stack([planes(fen) for fen in fens]) if parsed else None

    def __len__(self):
        return len(self.fens)

    def __getitem__(self, index):
        if self.parsed is not None:
            return self.parsed[index], self.values[index]
        return planes(self.fens[index]), self.values[index]  # cause


class Valuer(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        layers = [nn.Conv2d(13, 64, 3, padding=1), nn.ReLU()]
        for _ in range(4):
            layers += [nn.Conv2d(64, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU()]
        net = nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 64, 1), nn.Tanh())
        self.net = net.to(memory_format=torch.channels_last)

    def training_step(self, batch, batch_idx):
        boards, values = batch
        loss = nn.functional.mse_loss(self.net(boards)[:, 0], values)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=5e-4, fused=True)


def games():
    draws = np.random.default_rng(7)
    fens, values = [], []
    for _ in range(COUNT):
        squares = np.full(64, ".")
        places = draws.permutation(64)[: draws.integers(12, 30)]
        squares[places] = draws.choice(list(PIECES), len(places))
        ranks = ["".join(squares[8 * r : 8 * r + 8]).replace(".", "1") for r in range(8)]
        fens.append("/".join(ranks) + " " + draws.choice(["w", "b"]))
        values.append(
            float(np.tanh(sum(1 if s.isupper() else -1 for s in squares if s != ".") / 9))
        )
    return fens, values


def main(run: Run) -> None:
    data = DataLoader(Positions(*games(), parsed=run.fixed), batch_size=BATCH, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Valuer(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
