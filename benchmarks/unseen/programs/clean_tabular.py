"""An MLP on rows that are tensors, fetched by the batch."""

import torch
from case import Run, Validated, mlp, shuffled, whole_batches
from torch import nn

STEPS = 500


def main(run: Run) -> None:
    price = Validated(mlp(60, 768, 768, 1), loss=nn.functional.mse_loss)
    price.fused = True
    data = whole_batches([torch.randn(50_000, 60), torch.randn(50_000, 1)], 256)
    run.fit(price, data, shuffled(500, torch.randn(1000, 60), torch.randn(1000, 1)))
