"""What should the policy cost? A deep and narrow residual network over a table.

cause: hundreds of small parameters, and AdamW goes through them one by one on the host
right: the optimizer's step or the marked line, and many small parameters; the change is fused=True
accept: unfused-optimizer
"""

import torch
from case import Module, Residual, Run, mlp, whole_batches
from torch import nn

STEPS, POLICIES, COLUMNS, WIDTH, DEPTH = 400, 30_000, 40, 64, 28


class Premiums(Module):
    def __init__(self, fused):
        super().__init__()
        self.fused = fused
        blocks = (Residual(nn.LayerNorm(WIDTH), mlp(WIDTH, WIDTH, WIDTH)) for _ in range(DEPTH))
        ends = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 1)
        self.net = nn.Sequential(nn.Linear(COLUMNS, WIDTH), *blocks, *ends)

    def loss(self, batch):
        return nn.functional.poisson_nll_loss(self.net(batch[0]).squeeze(1), batch[1])

    def configure_optimizers(self):
        decayed = [p for p in self.parameters() if p.ndim > 1]
        plain = [p for p in self.parameters() if p.ndim <= 1]
        groups = [{"params": decayed, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=5e-4, fused=self.fused)  # cause


def main(run: Run) -> None:
    columns = torch.randn(POLICIES, COLUMNS)
    claims = torch.poisson(columns[:, :4].sum(1).clamp(-3, 1).exp())
    run.fit(Premiums(fused=run.fixed), whole_batches([columns, claims], 256))
