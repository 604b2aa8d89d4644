"""A parser of commands whose last layer is a mixture of experts.

seen in: facebookresearch/fairo pull request 442, "Base mixture model implementation": each expert
does a forward, and what is not its own is masked

cause: every one of six experts runs on every token, and a mask drops five of six results
accept: @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 250
WORDS, LENGTH, WIDTH, EXPERTS, ACTIONS = 800, 32, 96, 6, 50


class Experts(nn.Module):
    def __init__(self, route: bool) -> None:
        super().__init__()
        self.route = route
        self.gate = nn.Linear(WIDTH, EXPERTS)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))
            for _ in range(EXPERTS)
        )

    def forward(self, x):
        worth, chosen = self.gate(x).softmax(-1).max(-1)
        mixed = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            own = chosen == number
            if self.route:
                mixed[own] = expert(x[own])
            else:
                mixed = mixed + expert(x) * own.unsqueeze(-1)  # cause
        return x + worth.unsqueeze(-1) * mixed


class Parser(L.LightningModule):
    def __init__(self, route: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.encode = nn.GRU(WIDTH, WIDTH // 2, batch_first=True, bidirectional=True)
        self.experts = Experts(route)
        self.head = nn.Linear(WIDTH, ACTIONS)

    def training_step(self, batch, batch_idx):
        words, actions = batch
        encoded, _ = self.encode(self.embed(words))
        scores = self.head(self.experts(encoded))  # cause
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), actions.flatten())
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    commands = TensorDataset(
        torch.randint(WORDS, (1600, LENGTH)), torch.randint(ACTIONS, (1600, LENGTH))
    )
    data = DataLoader(commands, batch_size=24, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Parser(route=run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
