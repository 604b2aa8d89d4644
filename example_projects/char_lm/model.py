"""A small character-level transformer."""

import lightning as L
import torch
from text import VOCABULARY
from torch import Tensor, nn


class CharTransformer(L.LightningModule):
    def __init__(self, *, width: int = 64, layers: int = 2, heads: int = 4, length: int = 64):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Parameter(torch.zeros(length, width))
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, VOCABULARY)
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, codes: Tensor) -> Tensor:
        x = self.tokens(codes) + self.positions
        return self.head(self.blocks(x, mask=self.mask, is_causal=True))

    def loss(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        codes, following = batch
        return nn.functional.cross_entropy(self(codes).flatten(0, 1), following.flatten())

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        return self.loss(batch)

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        self.log("val_loss", self.loss(batch))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=2e-3)
