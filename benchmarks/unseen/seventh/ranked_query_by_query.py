"""Which recipe does a cook look for? Search results put in order, with NDCG beside the loss.

seen in: Lightning-AI/torchmetrics issue 2287 (NDCG of 8000 lists takes 2 s, "way higher than the
model forward pass") and issue 1241, "Improve modular retrieval metrics efficiency"

cause: the metric takes the batch apart and computes the NDCG of one query after another, each step
right: says that the retrieval metric (its loop over the queries) takes the time, or points at a
    marked line first; its change computes the NDCG of all queries at once, or measures it in
    validation or every some steps
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.retrieval import RetrievalNormalizedDCG

STEPS = 400
BATCH, LISTED, FEATURES, WIDTH, TOP = 48, 32, 136, 96, 10


def ndcg(scores, grades):
    """Return the mean NDCG of the first ten of lists, [queries, listed] both."""
    discounts = 1 / torch.log2(torch.arange(TOP) + 2.0)
    shown = grades.gather(1, scores.topk(TOP).indices)
    gain, best = (shown * discounts).sum(dim=1), (grades.topk(TOP).values * discounts).sum(dim=1)
    return torch.where(best > 0, gain / best, 0).mean()


class Recipes(L.LightningModule):
    def __init__(self, at_once: bool) -> None:
        super().__init__()
        self.at_once = at_once
        self.into = nn.Sequential(nn.BatchNorm1d(FEATURES), nn.Linear(FEATURES, WIDTH), nn.ReLU())
        self.context = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, 0.1, batch_first=True)
        self.out = nn.Linear(WIDTH, 1)
        self.ndcg = RetrievalNormalizedDCG(top_k=TOP)

    def forward(self, features):
        listed = self.into(features.flatten(0, 1)).unflatten(0, features.shape[:2])
        return self.out(self.context(listed)).squeeze(2)

    def training_step(self, batch, batch_idx):
        features, grades = batch
        scores = self(features)
        loss = nn.functional.cross_entropy(scores, grades.float().softmax(dim=1))
        self.log("train_loss", loss)
        if self.at_once:
            self.log("train_ndcg", ndcg(scores.detach(), grades))
        else:
            queries = torch.arange(len(grades)).repeat_interleave(LISTED)
            self.ndcg(scores.detach().flatten(), grades.flatten(), indexes=queries)  # cause
            self.log("train_ndcg", self.ndcg, on_step=True, on_epoch=False)  # cause
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    searches = TensorDataset(torch.randn(2400, LISTED, FEATURES), torch.randint(5, (2400, LISTED)))
    data = DataLoader(searches, batch_size=BATCH, shuffle=True)
    trainer = L.Trainer(callbacks=run.callbacks, gradient_clip_val=1.0, **run.trainer)
    trainer.fit(Recipes(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
