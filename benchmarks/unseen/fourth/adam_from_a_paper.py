"""Sentiment of short reviews; the optimizer is a file that came with a paper's code.

seen in: pytorch/pytorch pull request 43562, "Rewrote AdamW with _foreach APIs", and
axolotl-ai-cloud/axolotl pull request 2425, which leaves adamw_hf for torch's fused one

cause: the copied AdamW goes through the parameters in Python, a dozen operations for each
accept: unfused-optimizer @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 160
WORDS, LENGTH, WIDTH = 500, 12, 128


class PaperAdamW(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            first, second = group["betas"]
            for p in group["params"]:  # cause
                state = self.state[p]  # cause
                if not state:
                    state["step"] = 0
                    state["mean"], state["square"] = torch.zeros_like(p), torch.zeros_like(p)
                state["step"] += 1
                state["mean"].mul_(first).add_(p.grad, alpha=1 - first)  # cause
                state["square"].mul_(second).addcmul_(p.grad, p.grad, value=1 - second)  # cause
                scale = 1 / (1 - second ** state["step"])  # cause
                bottom = (state["square"] * scale).sqrt().add_(group["eps"])  # cause
                size = group["lr"] / (1 - first ** state["step"])  # cause
                p.addcdiv_(state["mean"], bottom, value=-size)  # cause
                p.add_(p, alpha=-group["lr"] * group["decay"])  # cause
        return loss


class Reviews(L.LightningModule):
    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.fused = fused
        self.words = nn.Embedding(WORDS, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 512, 0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 1)

    def training_step(self, batch, batch_idx):
        words, liked = batch
        scores = self.head(self.layers(self.words(words)).mean(1)).squeeze(1)
        loss = nn.functional.binary_cross_entropy_with_logits(scores, liked)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        if self.fused:
            return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)
        return PaperAdamW(self.parameters(), lr=1e-3)  # cause


def main(run: Run) -> None:
    reviews = TensorDataset(torch.randint(WORDS, (480, LENGTH)), torch.randint(2, (480,)).float())
    data = DataLoader(reviews, batch_size=4, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Reviews(fused=run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
