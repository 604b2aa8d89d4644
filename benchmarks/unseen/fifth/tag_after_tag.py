"""Names in sentences: an LSTM with a CRF on top, after a tutorial.

seen in: pytorch/pytorch issue 2400 ("I use blstm-crf in advance_tutorial, but it runs very slow"),
rguthrie3/BiLSTM-CRF issue 6 (the loop over the next tag) and kmkurn/pytorch-crf issue 72

cause: the forward algorithm of the CRF loops over the next tags inside the loop over words
right: names the many small operations of that loop (in training_step, forward or the loss) with the
    advice to do them at once for all tags, or points at a marked line first
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 160
WORDS, TAGS, LENGTH = 3000, 9, 16


class Tagger(L.LightningModule):
    def __init__(self, at_once: bool) -> None:
        super().__init__()
        self.at_once = at_once
        self.words = nn.Embedding(WORDS, 64)
        self.lstm = nn.LSTM(64, 64, bidirectional=True, batch_first=True)
        self.head = nn.Linear(128, TAGS)
        self.moves = nn.Parameter(0.1 * torch.randn(TAGS, TAGS))

    def all_paths(self, scores):
        sums = scores[:, 0]
        for place in range(1, LENGTH):
            if self.at_once:
                reached = sums[:, :, None] + self.moves
                sums = torch.logsumexp(reached, dim=1) + scores[:, place]
                continue
            after = []
            for tag in range(TAGS):  # cause
                reached = sums + self.moves[:, tag] + scores[:, place, tag, None]  # cause
                after.append(torch.logsumexp(reached, dim=1))  # cause
            sums = torch.stack(after, dim=1)
        return torch.logsumexp(sums, dim=1)

    def training_step(self, batch, batch_idx):
        words, tags = batch
        scores = self.head(self.lstm(self.words(words))[0])
        path = scores.gather(2, tags[..., None]).sum(dim=(1, 2))
        path = path + self.moves[tags[:, :-1], tags[:, 1:]].sum(dim=1)
        loss = (self.all_paths(scores) - path).mean()  # cause
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    sentences = TensorDataset(
        torch.randint(WORDS, (1600, LENGTH)), torch.randint(TAGS, (1600, LENGTH))
    )
    data = DataLoader(sentences, batch_size=32, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Tagger(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
