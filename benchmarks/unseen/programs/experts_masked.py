"""A parser of commands whose last layer is a mixture of experts.

Seen in facebookresearch/fairo pull request 442: each expert does a forward, the rest is masked.

cause: every one of six experts runs on every token, and a mask drops five of six results
accept: @line
"""

import torch
from case import Module, Run, cross_entropy, mlp, shuffled
from torch import nn

STEPS, WORDS, LENGTH, WIDTH, EXPERTS, ACTIONS = 250, 800, 32, 96, 6, 50


class Experts(nn.Module):
    def __init__(self, route):
        super().__init__()
        self.route, self.gate = route, nn.Linear(WIDTH, EXPERTS)
        experts = (mlp(WIDTH, 2 * WIDTH, WIDTH, act=nn.GELU) for _ in range(EXPERTS))
        self.experts = nn.ModuleList(experts)

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


class Parser(Module):
    def __init__(self, route):
        super().__init__()
        self.embed, self.experts = nn.Embedding(WORDS, WIDTH), Experts(route)
        self.encode = nn.GRU(WIDTH, WIDTH // 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(WIDTH, ACTIONS)

    def loss(self, batch):
        encoded, _ = self.encode(self.embed(batch[0]))
        return cross_entropy(self.head(self.experts(encoded)), batch[1])  # cause


def main(run: Run) -> None:
    words, actions = torch.randint(WORDS, (1600, LENGTH)), torch.randint(ACTIONS, (1600, LENGTH))
    run.fit(Parser(route=run.fixed), shuffled(24, words, actions))
