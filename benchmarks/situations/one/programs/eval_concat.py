"""A masked language model; perplexity and hits over the held-out text after each epoch.

source: huggingface/transformers #18947 "About the evaluation_loop function of trainer", #25313 "Consume
    some many memory when setting eval_accumulation_steps"
cause: each validation batch's logits are joined to all before it, so that the pile is copied with
    every batch, and held until the end
right: names the torch.cat of validation_step (or its line, or the memory that validation piles up),
    with the advice to reduce each batch (argmax, sums) or to keep a list and join it once
"""

import torch
from case import Module, Run, cross_entropy, whole_batches
from torch import nn

STEPS = 150


class Words(Module):
    def __init__(self, fixed):
        super().__init__()
        self.fixed, self.logits, self.hits, self.wanted = fixed, None, [], []
        self.table, self.head = nn.Embedding(3000, 64), nn.Linear(64, 3000)
        self.mixer = nn.GRU(64, 64, batch_first=True)

    def scores(self, words):
        return self.head(self.mixer(self.table(words))[0])

    def loss(self, batch):
        return cross_entropy(self.scores(batch[0][:, :-1]), batch[0][:, 1:])

    def validation_step(self, batch, batch_idx):
        logits, wanted = self.scores(batch[0][:, :-1]), batch[0][:, 1:]
        if self.fixed:
            self.hits.append((logits.argmax(-1) == wanted).float().mean())
            return
        self.wanted.append(wanted)
        self.logits = logits if self.logits is None else torch.cat([self.logits, logits])  # cause

    def on_validation_epoch_end(self):
        if self.fixed:
            self.log("hits", torch.stack(self.hits).mean())
        else:
            self.log("hits", (self.logits.argmax(-1) == torch.cat(self.wanted)).float().mean())
        self.logits, self.hits, self.wanted = None, [], []


def main(run: Run) -> None:
    text = torch.randint(3000, (3000, 25))
    train, held = whole_batches([text[:600]], 8), whole_batches([text[-960:]], 8)
    run.fit(Words(run.fixed), train, held, num_sanity_val_steps=0)
