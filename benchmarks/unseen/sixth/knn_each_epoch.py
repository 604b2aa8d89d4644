"""Leaves without labels: two views of each shall look alike, watched by a vote of neighbours.

seen in: GitHubOfHyl97/SkeAttnCLR issue 1 ("if the KNN evaluation is performed every few epochs
during training, is there a slow training speed?"), lightly-ai/lightly issue 77, and
open-mmlab/mmselfsup issue 306

cause: a callback embeds all known pictures and the test's after every short epoch, to let the
    nearest neighbours vote
right: names the callback, its hook or function as what costs, or points at a marked line first; its
    change lets it run less often or on fewer pictures
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 760
SIDE, KNOWN, ASKED, KINDS = 32, 320, 320, 8


class NeighbourVote(L.Callback):
    def __init__(self, known, asked, every: int) -> None:
        self.known, self.asked, self.every = known, asked, every

    def on_train_epoch_end(self, trainer, pl_module):
        if (trainer.current_epoch + 1) % self.every:
            return
        pl_module.eval()
        with torch.no_grad():
            (known, kinds), (asked, right) = self.known, self.asked
            memory = torch.cat([pl_module.net(few) for few in known.split(64)])  # cause
            places = torch.cat([pl_module.net(few) for few in asked.split(64)])  # cause
            memory, places = nn.functional.normalize(memory), nn.functional.normalize(places)
            votes = kinds[(places @ memory.T).topk(20).indices]
            guessed = nn.functional.one_hot(votes, KINDS).sum(dim=1).argmax(dim=1)
        pl_module.train()
        pl_module.log("neighbours", (guessed == right).float().mean())


class Leaves(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, stride=2, padding=1),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.guess = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 64))

    def training_step(self, batch, batch_idx):
        (leaves,) = batch
        views = torch.cat([leaves, leaves.flip(3)])
        views = views * (0.8 + 0.4 * torch.rand(len(views), 1, 1, 1))
        places = self.net(views + 0.1 * torch.randn_like(views))
        first, second = places.detach().chunk(2)
        guesses = self.guess(places)
        loss = -nn.functional.cosine_similarity(guesses, torch.cat([second, first])).mean()
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9, fused=True)


def main(run: Run) -> None:
    leaves = torch.rand(KNOWN, 3, SIDE, SIDE)
    vote = NeighbourVote(
        (leaves, torch.randint(KINDS, (KNOWN,))),
        (torch.rand(ASKED, 3, SIDE, SIDE), torch.randint(KINDS, (ASKED,))),
        every=10 if run.fixed else 1,
    )
    data = DataLoader(TensorDataset(leaves), batch_size=16, shuffle=True)
    L.Trainer(callbacks=[vote, *run.callbacks], **run.trainer).fit(Leaves(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
