"""Which of 100 findings does a record show? The ranking of each finding is measured per epoch.

Reported in Lightning-AI/pytorch-lightning issue 14270, "memory usage and training time increases a
lot after epoch 0": "You append to self.val_accuracy_results forever but never clear it"; the
migration of pull request 16520 leaves such lists to the user.

cause: what validation_step appends is never cleared, so that each epoch's end ranks the outcomes of
    all epochs so far: it takes longer each time, and memory grows
right: validation (its epoch end, or a marked line) grows from epoch to epoch, with a list that is
    kept; the change is to clear it in on_validation_epoch_end
"""

import torch
from case import Run, Supervised, mlp, whole_batches
from torch import nn

STEPS, RECORDS, HELD_OUT, WIDTH, FINDINGS, SIZE = 360, 1536, 2048, 64, 100, 64


class Findings(Supervised):
    def __init__(self, fixed):
        loss = nn.functional.binary_cross_entropy_with_logits
        super().__init__(mlp(WIDTH, 512, 512, FINDINGS), loss=loss)
        self.fixed, self.outcomes = fixed, []

    def validation_step(self, batch, batch_idx):
        self.outcomes.append((self.net(batch[0]), batch[1]))  # cause

    def on_validation_epoch_end(self):
        scores, wanted = (torch.cat(part) for part in zip(*self.outcomes, strict=True))  # cause
        ranked = wanted.gather(0, scores.argsort(0, descending=True))  # cause
        hits = ranked.cumsum(0) / torch.arange(1, len(ranked) + 1)[:, None]
        self.log("map", (hits * ranked).sum() / ranked.sum())
        if self.fixed:
            self.outcomes.clear()


def main(run: Run) -> None:
    def records(count):
        return torch.randn(count, WIDTH), torch.randint(2, (count, FINDINGS)).float()

    loaders = whole_batches(records(RECORDS), SIZE), whole_batches(records(HELD_OUT), 256)
    run.fit(Findings(run.fixed), *loaders, num_sanity_val_steps=0, enable_checkpointing=False)
