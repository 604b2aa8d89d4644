"""A small language model of recipes; it once gave NaN, and somebody went looking.

seen in: Lightning-AI/pytorch-lightning issues 12344 and 17359, on detect_anomaly left on

cause: Trainer(detect_anomaly=True) keeps a traceback of every operation and checks every gradient
accept: anomaly-detection-on debugging-left-on
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 160
WORDS, LENGTH, WIDTH = 400, 32, 64


class Recipes(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Parameter(torch.zeros(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 128, 0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, WORDS)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def training_step(self, batch, batch_idx):
        (words,) = batch
        hidden = self.layers(self.words(words[:, :-1]) + self.places, self.mask, is_causal=True)
        loss = nn.functional.cross_entropy(self.head(hidden).flatten(0, 1), words[:, 1:].flatten())
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    recipes = TensorDataset(torch.randint(WORDS, (512, LENGTH + 1)))
    data = DataLoader(recipes, batch_size=8, shuffle=True)
    hunt = not run.fixed
    trainer = L.Trainer(callbacks=run.callbacks, detect_anomaly=hunt, **run.trainer)  # cause
    trainer.fit(Recipes(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
