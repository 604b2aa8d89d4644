"""What is the paper about? A graph convolution over all papers and their citations at once.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 300
PAPERS, CITED, WORDS, SUBJECTS, WIDTH = 3000, 5, 256, 7, 128


def neighbours() -> torch.Tensor:
    """Return the normalised adjacency matrix with self loops, as a sparse one."""
    citing = torch.arange(PAPERS).repeat_interleave(CITED)
    cited = torch.randint(PAPERS, (PAPERS * CITED,))
    own = torch.arange(PAPERS)
    edges = torch.stack([torch.cat([citing, cited, own]), torch.cat([cited, citing, own])])
    edges = edges.unique(dim=1)
    degree = torch.bincount(edges[0], minlength=PAPERS).float()
    weights = (degree[edges[0]] * degree[edges[1]]).rsqrt()
    return torch.sparse_coo_tensor(edges, weights, (PAPERS, PAPERS)).to_sparse_csr()


class Rounds(Dataset):
    """The whole graph is one batch: an item says which papers are dropped from the loss."""

    def __init__(self, count: int, first: int, last: int) -> None:
        self.count, self.papers = count, torch.arange(first, last)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.papers


class Papers(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.subjects = torch.randint(SUBJECTS, (PAPERS,))
        self.words = torch.rand(PAPERS, WORDS) + 0.2 * torch.rand(SUBJECTS, WORDS)[self.subjects]
        self.graph = neighbours()
        self.first, self.second = nn.Linear(WORDS, WIDTH), nn.Linear(WIDTH, SUBJECTS)

    def forward(self):
        words = nn.functional.dropout(self.words, 0.2, self.training)
        hidden = torch.relu(self.graph @ self.first(words))
        return self.graph @ self.second(nn.functional.dropout(hidden, 0.5, self.training))

    def training_step(self, papers, batch_idx):
        loss = nn.functional.cross_entropy(self()[papers], self.subjects[papers])
        self.log("train_loss", loss, batch_size=len(papers))
        return loss

    def validation_step(self, papers, batch_idx):
        right = self()[papers].argmax(1) == self.subjects[papers]
        self.log("val_accuracy", right.float().mean(), batch_size=len(papers))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=5e-3, weight_decay=5e-3, fused=True)


def main(run: Run) -> None:
    train = DataLoader(Rounds(100, 0, 2000), batch_size=None)
    held = DataLoader(Rounds(1, 2000, PAPERS), batch_size=None)
    save = ModelCheckpoint(dirpath=run.root / "papers", monitor="val_accuracy", mode="max")
    trainer = L.Trainer(callbacks=[save, *run.callbacks], **run.trainer)
    trainer.fit(Papers(), train, held)


if __name__ == "__main__":
    main(arguments(STEPS))
