"""Inflected forms of words: which paradigm does a form belong to?

Reported in CUNY-CL/yoyodyne issue 32, "hparams": "all samples are now in the hparams file".

cause: save_hyperparameters keeps the training samples, a list of tuples, too: the logger writes
    them as YAML before the first step (twice, to test them first), and each checkpoint holds them
right: hyperparameters (their logging, hparams.yaml) take seconds before the first step; the change
    is save_hyperparameters(ignore=["samples"]) or not to give the samples to the module
"""

import random

import torch
from case import Module, Run, cross_entropy, whole_batches
from torch import nn

STEPS, FORMS, LETTERS, PARADIGMS = 300, 12_000, 12, 20
TAGS = ("V;PST", "V;PRS;3;SG", "N;PL", "ADJ;CMPR")


class Morphology(Module):
    def __init__(self, samples, width, fixed):
        super().__init__()
        self.save_hyperparameters(ignore=["samples"] if fixed else None)  # cause
        self.letters = nn.Embedding(27, width)
        self.reader = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, PARADIGMS)

    def loss(self, batch):
        letters, paradigms = batch
        _, last = self.reader(self.letters(letters))
        return cross_entropy(self.head(last[0]), paradigms)


def main(run: Run) -> None:
    letters = torch.randint(1, 27, (FORMS, LETTERS))
    words = ["".join(chr(96 + n) for n in row) for row in letters.tolist()]
    samples = [(word, word[:-2], random.choice(TAGS)) for word in words]
    model = Morphology(samples, 64, run.fixed)
    run.fit(model, whole_batches([letters, torch.randint(PARADIGMS, (FORMS,))], 48))
