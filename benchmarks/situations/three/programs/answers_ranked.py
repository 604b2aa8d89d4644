"""Which answer fits a question? Twenty candidates each are put in order.

report: Lightning-AI/torchmetrics issue 1241, "Improve modular retrieval metrics efficiency" ("very
    slow when fed with many predictions"), and a comment in issue 2287: "splits the input tensor ...
    into a list of tensors and iterates sequentially over that list"
cause: at the end of each validation two retrieval metrics go through 2500 questions one by one,
    some dozen small operations for each
right: the end of validation (the compute of the retrieval metrics, a marked line, or
    RetrievalNormalizedDCG and RetrievalMRR by name) takes most of the run; the change is to rank
    all questions at once (a matrix of questions by candidates), or to validate less often. It is
    not the network's validation pass
The mended form logs the same two numbers, up to rounding.
"""

import torch
from case import Run, Supervised, mlp, whole_batches
from torch import nn
from torchmetrics.retrieval import RetrievalMRR, RetrievalNormalizedDCG

STEPS, QUESTIONS, HELD, CANDIDATES, WIDTH = 300, 3600, 2500, 20, 48


class Answers(Supervised):
    def __init__(self, fixed):
        super().__init__(mlp(WIDTH, 256, 256, 1), nn.Flatten(-2))
        self.fixed, self.rows = fixed, []
        self.ndcg, self.mrr = RetrievalNormalizedDCG(), RetrievalMRR()

    def validation_step(self, batch, batch_idx):
        candidates, right, questions = batch
        scores = self.net(candidates)
        wanted = nn.functional.one_hot(right, CANDIDATES)
        if self.fixed:
            self.rows.append(1 + (scores > scores.gather(1, right[:, None])).sum(1))
            return
        indexes = questions[:, None].expand_as(scores)
        for metric in (self.ndcg, self.mrr):
            metric.update(scores.sigmoid().flatten(), wanted.flatten(), indexes=indexes.flatten())

    def on_validation_epoch_end(self):
        if self.fixed:
            places = torch.cat(self.rows).float()
            self.rows.clear()
            self.log("ndcg", (1 / (1 + places).log2()).mean())
            self.log("mrr", (1 / places).mean())
            return
        for name, metric in (("ndcg", self.ndcg), ("mrr", self.mrr)):
            self.log(name, metric.compute())  # cause
            metric.reset()


def main(run: Run) -> None:
    made = torch.randn(QUESTIONS + HELD, CANDIDATES, WIDTH)
    right, number = torch.randint(CANDIDATES, (len(made),)), torch.arange(len(made))
    train = whole_batches([made[:QUESTIONS], right[:QUESTIONS]], 60)
    held = whole_batches([made[QUESTIONS:], right[QUESTIONS:], number[QUESTIONS:]], 250)
    run.fit(Answers(run.fixed), train, held, num_sanity_val_steps=0)
