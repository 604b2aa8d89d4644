"""Names and places in sentences of any length, packed for an LSTM of both directions.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.nn.utils.rnn import pack_sequence
from torch.utils.data import DataLoader

STEPS = 160
WORDS, TAGS, WIDTH = 3000, 9, 96


class Tagger(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.lstm = nn.LSTM(WIDTH, WIDTH, bidirectional=True)
        self.head = nn.Linear(2 * WIDTH, TAGS)

    def training_step(self, batch, batch_idx):
        words, tags = batch
        packed = words._replace(data=self.words(words.data))
        scores = self.head(self.lstm(packed)[0].data)
        loss = nn.functional.cross_entropy(scores, tags.data)
        self.log("train_loss", loss, batch_size=int(words.batch_sizes[0]))
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=2e-3, fused=True)


def packed(items):
    words, tags = zip(*items, strict=True)
    return tuple(pack_sequence(part, enforce_sorted=False) for part in (words, tags))


def main(run: Run) -> None:
    lengths = torch.randint(8, 30, (800,)).tolist()
    sentences = [(torch.randint(WORDS, (n,)), torch.randint(TAGS, (n,))) for n in lengths]
    data = DataLoader(sentences, batch_size=24, shuffle=True, collate_fn=packed)
    L.Trainer(callbacks=run.callbacks, gradient_clip_val=1.0, **run.trainer).fit(Tagger(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
