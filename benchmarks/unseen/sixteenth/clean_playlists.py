"""Which song comes next? A transformer over playlists with drawn negatives, clean.

The songs' table is large, but few of its rows are asked for in a step: its gradient is sparse and
SparseAdam moves those rows alone, so there are two optimizers, stepped by hand. Negatives are drawn
for the whole batch at once and shared; a checkpoint of the weights comes once in an epoch.
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

STEPS = 180
LISTS, SONGS, LENGTH, BATCH, WIDTH, FALSE = 9000, 50000, 32, 48, 64, 256


class Playlists(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.songs = nn.Embedding(SONGS, WIDTH, sparse=True)
        nn.init.normal_(self.songs.weight, std=0.05)
        self.places = nn.Parameter(0.02 * torch.randn(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 4 * WIDTH, 0.1, batch_first=True)
        self.net = nn.TransformerEncoder(layer, 2)
        mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)
        self.register_buffer("mask", mask, persistent=False)

    def training_step(self, batch, batch_idx):
        (lists,) = batch
        false = torch.randint(0, SONGS, (FALSE,), device=lists.device)
        found = self.songs(torch.cat([lists.flatten(), false]))
        known, wrong = found[:-FALSE].unflatten(0, lists.shape), found[-FALSE:]
        state = self.net(known[:, :-1] + self.places, mask=self.mask, is_causal=True)
        right = (state * known[:, 1:]).sum(dim=2, keepdim=True)
        scores = torch.cat([right, state @ wrong.t()], dim=2).flatten(0, 1)
        loss = nn.functional.cross_entropy(scores, scores.new_zeros(len(scores)).long())
        for optimizer in self.optimizers():
            optimizer.zero_grad()
        self.manual_backward(loss)
        for optimizer in self.optimizers():
            optimizer.step()
        self.log("train_loss", loss.detach())
        return {"loss": loss.detach()}

    def configure_optimizers(self):
        others = [*self.net.parameters(), self.places]
        return [
            torch.optim.SparseAdam(self.songs.parameters(), lr=1e-3),
            torch.optim.AdamW(others, lr=1e-3, fused=True),
        ]


def main(run: Run) -> None:
    starts = torch.randint(0, SONGS, (LISTS, 1))
    lists = TensorDataset((starts + 7 * torch.arange(LENGTH + 1)) % SONGS)
    batches = BatchSampler(RandomSampler(lists), BATCH, drop_last=True)
    data = DataLoader(lists, sampler=batches, batch_size=None)
    trainer = L.Trainer(callbacks=run.callbacks, **run.trainer)
    trainer.fit(Playlists(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
