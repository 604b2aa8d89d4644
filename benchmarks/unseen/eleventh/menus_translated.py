"""Menus from one language into another: a small transformer that once diverged and is now watched.

cause: before every optimizer step the norm of each parameter's gradient is taken and read on its
    own, though it is logged only every 50 steps
right: gradient norms taken by hand; names on_before_optimizer_step or its loop (a marked line); the
    change takes them all at once (get_total_norm, torch._foreach_norm) or only when they are logged
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

STEPS = 450
MENUS, LENGTH, WORDS, WIDTH = 3000, 14, 600, 64


class Menus(Dataset):
    def __init__(self) -> None:
        self.source = torch.randint(2, WORDS, (MENUS, LENGTH))
        self.target = (self.source.flip(1) * 7 + 3) % (WORDS - 2) + 2

    def __len__(self):
        return MENUS

    def __getitem__(self, indices):
        return self.source[indices], self.target[indices]


class Translator(L.LightningModule):
    def __init__(self, only_when_logged: bool) -> None:
        super().__init__()
        self.only_when_logged = only_when_logged
        self.worst = 0.0
        self.source, self.target = nn.Embedding(WORDS, WIDTH), nn.Embedding(WORDS, WIDTH)
        self.places = nn.Parameter(torch.randn(LENGTH, WIDTH) / 10)
        self.transformer = nn.Transformer(
            WIDTH, 4, 2, 2, 4 * WIDTH, dropout=0.1, batch_first=True, norm_first=True
        )
        self.head = nn.Linear(WIDTH, WORDS)
        ahead = nn.Transformer.generate_square_subsequent_mask(LENGTH)
        self.register_buffer("ahead", ahead)

    def training_step(self, batch, batch_idx):
        source, target = batch
        begun = torch.cat([torch.ones_like(target[:, :1]), target[:, :-1]], dim=1)
        said = self.transformer(
            self.source(source) + self.places,
            self.target(begun) + self.places,
            tgt_mask=self.ahead,
        )
        loss = nn.functional.cross_entropy(self.head(said).flatten(0, 1), target.flatten())
        self.log("train_loss", loss)
        return loss

    def on_before_optimizer_step(self, optimizer):
        logged = (self.global_step + 1) % self.trainer.log_every_n_steps == 0
        if self.only_when_logged and not logged:
            return
        total, largest = 0.0, ("", 0.0)
        for name, parameter in self.named_parameters():
            if parameter.grad is None:
                continue
            norm = parameter.grad.detach().norm(2).item()  # cause
            relative = norm / (parameter.detach().norm(2).item() + 1e-8)  # cause
            total += norm**2
            if relative > largest[1]:
                largest = (name, relative)
        if logged:
            self.log("grad/total", total**0.5)
            self.log("grad/largest_relative", largest[1])

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=5e-4, fused=True)


def main(run: Run) -> None:
    menus = Menus()
    batches = BatchSampler(RandomSampler(menus), batch_size=20, drop_last=True)
    data = DataLoader(menus, sampler=batches, batch_size=None)
    module = Translator(only_when_logged=run.fixed)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(module, data)


if __name__ == "__main__":
    main(arguments(STEPS))
