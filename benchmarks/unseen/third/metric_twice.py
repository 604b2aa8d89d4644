"""Names in court files: a tagger, and the share of whole names that it found in each batch.

seen in: phiyodr/building-inspection-toolkit issue 8 and Lightning-AI/torchmetrics pull request 984,
on `full_state_update` of one's own metrics

cause: the metric does not say full_state_update = False, so each call updates it twice
accept: slow-python host-bound slow-logging @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import Metric

STEPS = 300
WORDS, TAGS, LENGTH = 3000, 9, 48


def spans(tags: list[int]) -> set[tuple[int, int, int]]:
    """Return the names of a line: odd tags begin one, the even tag after it goes on."""
    found, start = set(), None
    for place, tag in enumerate([*tags, 0]):  # cause
        if start is not None and tag != tags[start] + 1:  # cause
            found.add((start, place, tags[start]))  # cause
            start = None  # cause
        if tag % 2:  # cause
            start = place  # cause
    return found


class NamesFound(Metric):
    def __init__(self) -> None:
        super().__init__()
        self.add_state("found", torch.tensor(0.0), dist_reduce_fx="sum")
        self.add_state("all", torch.tensor(0.0), dist_reduce_fx="sum")

    def update(self, guessed, wanted):
        for ours, theirs in zip(guessed.tolist(), wanted.tolist(), strict=True):  # cause
            names = spans(theirs)  # cause
            self.found += len(names & spans(ours))  # cause
            self.all += len(names)  # cause

    def compute(self):
        return self.found / self.all.clamp_min(1)


class NamesFoundOnce(NamesFound):
    full_state_update = False


class CourtTagger(L.LightningModule):
    def __init__(self, once: bool) -> None:
        super().__init__()
        self.found = NamesFoundOnce() if once else NamesFound()  # cause
        self.embed = nn.Embedding(WORDS, 80)
        self.lstm = nn.LSTM(80, 80, batch_first=True, bidirectional=True)
        self.head = nn.Linear(160, TAGS)

    def training_step(self, batch, batch_idx):
        words, tags = batch
        scores = self.head(self.lstm(self.embed(words))[0])
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), tags.flatten())
        self.log_dict({"train_loss": loss, "found": self.found(scores.argmax(-1), tags)})  # cause
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    lines = TensorDataset(torch.randint(WORDS, (1280, LENGTH)), torch.randint(TAGS, (1280, LENGTH)))
    data = DataLoader(lines, batch_size=16, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(CourtTagger(once=run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
