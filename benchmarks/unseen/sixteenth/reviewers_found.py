"""Who could review the paper? A graph network over who cited whom, with a warm-up of its own.

cause: the module's own optimizer_step calls the closure by itself and then gives it to
    optimizer.step too, which calls it again: forward and backward run twice for each batch, and
    the first gradients are thrown away
right: names optimizer_step and its closure as called twice (or training_step and backward as run
    twice a step); its change is to drop the call and leave it to optimizer.step(optimizer_closure)

Seen in https://github.com/Lightning-AI/pytorch-lightning/issues/4188 ("Too many backwards"),
https://github.com/Lightning-AI/pytorch-lightning/issues/4447 and 5092 (how to override it).
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

STEPS = 160
PEOPLE, NEAR, WORDS, FIELDS, BATCH, WIDTH, WARM = 6000, 12, 96, 16, 128, 96, 60


class Reviewers(L.LightningModule):
    def __init__(self, words, near, fixed) -> None:
        super().__init__()
        self.fixed = fixed
        self.register_buffer("words", words, persistent=False)
        self.register_buffer("near", near, persistent=False)
        self.first = nn.Linear(2 * WORDS, WIDTH)
        self.second = nn.Linear(2 * WIDTH, WIDTH)
        self.fields = nn.Linear(WIDTH, FIELDS)

    def once(self, people):
        around = self.words[self.near[people]].mean(dim=-2)
        return self.first(torch.cat([self.words[people], around], dim=-1)).relu()

    def forward(self, people):
        around = self.once(self.near[people]).mean(dim=1)
        return self.second(torch.cat([self.once(people), around], dim=1)).relu()

    def training_step(self, batch, batch_idx):
        people, fields = batch
        loss = nn.functional.cross_entropy(self.fields(self(people)), fields)
        self.log("train_loss", loss)
        return loss

    def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure=None):
        if not self.fixed:
            optimizer_closure()  # cause
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * min(1.0, (self.trainer.global_step + 1) / WARM)
        optimizer.step(closure=optimizer_closure)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=2e-3, weight_decay=1e-2, fused=True)


def main(run: Run) -> None:
    fields = torch.randint(0, FIELDS, (PEOPLE,))
    words = torch.randn(FIELDS, WORDS)[fields] * 0.3 + torch.randn(PEOPLE, WORDS)
    near = torch.randint(0, PEOPLE, (PEOPLE, NEAR))
    known = TensorDataset(torch.arange(PEOPLE), fields)
    batches = BatchSampler(RandomSampler(known), BATCH, drop_last=True)
    data = DataLoader(known, sampler=batches, batch_size=None)
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Reviewers(words, near, run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
