"""A small GPT on a stream of tokens, two micro-batches per update.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 160

LENGTH, VOCABULARY = 96, 256


class Tokens(Dataset):
    def __init__(self, count: int) -> None:
        self.ids = torch.randint(VOCABULARY, (count,))

    def __len__(self) -> int:
        return (len(self.ids) - 1) // LENGTH

    def __getitem__(self, index: int):
        start = index * LENGTH
        return self.ids[start : start + LENGTH], self.ids[start + 1 : start + LENGTH + 1]


class GPT(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 128)
        self.position = nn.Parameter(torch.zeros(LENGTH, 128))
        layer = nn.TransformerEncoderLayer(
            128, 4, 512, dropout=0.0, batch_first=True, norm_first=True
        )
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(128, VOCABULARY)
        mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)
        self.register_buffer("mask", mask)

    def training_step(self, batch, batch_idx):
        x, y = batch
        hidden = self.body(self.embed(x) + self.position, mask=self.mask, is_causal=True)
        loss = nn.functional.cross_entropy(self.head(hidden).flatten(0, 1), y.flatten())
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-4, fused=True)


def main(run: Run) -> None:
    data = DataLoader(Tokens(200_000), batch_size=12, shuffle=True)
    options = {**run.trainer, "max_steps": run.steps // 2}  # updates
    trainer = L.Trainer(callbacks=run.callbacks, accumulate_grad_batches=2, **options)
    trainer.fit(GPT(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
