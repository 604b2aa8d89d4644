"""Which song follows? A GRU over sessions, scored against negatives that all sessions share.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 200
SONGS, LENGTH, WIDTH, NEGATIVES = 8000, 24, 80, 256


class Sessions(Dataset):
    """Hands out whole batches by their rows."""

    def __init__(self, songs) -> None:
        self.songs = songs

    def __len__(self) -> int:
        return len(self.songs)

    def __getitems__(self, indices):
        return self.songs[indices]


class NextSong(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.songs = nn.Embedding(SONGS, WIDTH)
        self.gru = nn.GRU(WIDTH, WIDTH, batch_first=True)

    def training_step(self, songs, batch_idx):
        states, _ = self.gru(self.songs(songs[:, :-1]))
        right = (states * self.songs(songs[:, 1:])).sum(dim=2, keepdim=True)
        wrong = states @ self.songs(torch.randint(SONGS, (NEGATIVES,))).T
        scores = torch.cat([right, wrong], dim=2).flatten(0, 1)
        loss = nn.functional.cross_entropy(scores, scores.new_zeros(len(scores), dtype=torch.long))
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    sessions = Sessions(torch.randint(SONGS, (4000, LENGTH)))
    data = DataLoader(sessions, batch_size=32, shuffle=True, collate_fn=torch.as_tensor)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(NextSong(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
