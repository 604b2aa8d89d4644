"""Land use on satellite tiles: a map of probabilities for each, counted up afterwards.

report: Lightning-AI/pytorch-lightning issue 15656, "Trainer.predict on really large dataset cause CPU
    out-of-memory", and issue 6508, "trainer.predict method should return iterator instead of list"
cause: predict gives back what predict_step returns, for all batches: whole maps of probabilities in
    full precision, of which only the count of each class is wanted
right: memory of the process grows with each batch of predict (by 10 MiB, 800 MiB in all), since the
    returned predictions are kept; the change is return_predictions=False with a writer
    (BasePredictionWriter), or a predict_step that returns little (counts, or classes as uint8)
gain: memory, no time: the most the process had
FIX=1 mends it: predict_step returns the counts.
"""

import clock
import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader

TILES, SIDE, CLASSES, BATCH = 320, 256, 10, 4


class Tiles(torch.utils.data.Dataset):
    def __init__(self):
        self.scene = torch.rand(4, 1400, 1400)

    def __len__(self):
        return TILES

    def __getitem__(self, index):
        row, column = divmod(index, 20)
        return self.scene[:, row * 57 : row * 57 + SIDE, column * 57 : column * 57 + SIDE]


class LandUse(pl.LightningModule):
    def __init__(self):
        super().__init__()
        layers = nn.Conv2d(4, 12, 5, 2, 2), nn.ReLU(), nn.Conv2d(12, 12, 3, 1, 1), nn.ReLU()
        self.net = nn.Sequential(*layers, nn.ConvTranspose2d(12, CLASSES, 2, 2))

    def predict_step(self, batch, index):
        maps = self.net(batch).softmax(1)
        if clock.FIX:
            return maps.argmax(1).flatten().bincount(minlength=CLASSES)
        return maps  # cause


def counted(found):
    if clock.FIX:
        return torch.stack(found).sum(0)
    return sum(maps.argmax(1).flatten().bincount(minlength=CLASSES) for maps in found)


if __name__ == "__main__":
    made, times = clock.trainer(logger=False)
    data = DataLoader(Tiles(), BATCH)
    model = LandUse()
    clock.timed(made, times, lambda: counted(made.predict(model, data)))  # cause
