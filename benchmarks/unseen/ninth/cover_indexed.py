"""How warm does each field get: a net over maps of land cover, each kind with a learned vector.

seen in: pytorch/pytorch issue 41162, "Advanced indexing gradient is extremely slow when there are
many duplicate indices", and dmlc/dgl issue 3729, "Use index_select instead of regular indexing"

cause: the kinds' vectors are looked up by indexing the parameter; the gradient of an indexing adds
    the many thousand rows of one kind one after the other
right: names the backward of the indexing (the marked line, or index_backward, index_put or
    indexing_backward_kernel) as what takes the time; its change looks the vectors up with
    nn.Embedding, F.embedding, index_select or a one-hot product
"""

import lightning as L
import torch
from case import Run, arguments, sized
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

STEPS, EPOCH = 80, 200
BATCH, SIDE, WIDTH = sized((32, 64, 64), (4, 16, 40))
SHARES = (0.3, 0.2, 0.12, 0.1, 0.08, 0.06, 0.05, 0.04, 0.03, 0.02)  # water, forest, ...


def block(into: int, out: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(into, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU()
    )


class Warmth(L.LightningModule):
    def __init__(self, embedded: bool) -> None:
        super().__init__()
        self.embedded = embedded
        self.vectors = nn.Parameter(torch.randn(len(SHARES), WIDTH - 1))
        self.net = nn.Sequential(*[block(WIDTH, WIDTH) for _ in range(6)])
        self.out = nn.Conv2d(WIDTH, 1, 1)
        self.to(memory_format=torch.channels_last)

    def forward(self, cover, heights):
        if self.embedded:
            vectors = nn.functional.embedding(cover, self.vectors)
        else:
            vectors = self.vectors[cover]  # cause
        x = torch.cat([vectors.movedim(3, 1), heights[:, None]], dim=1)
        return self.out(self.net(x))[:, 0]

    def training_step(self, batch, batch_idx):
        cover, heights, warmth = batch
        loss = nn.functional.smooth_l1_loss(self(cover, heights), warmth)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    number = 8 * BATCH
    cover = torch.multinomial(torch.tensor(SHARES), number * SIDE**2, replacement=True)
    cover = cover.view(number, SIDE, SIDE)
    heights = torch.rand(number, SIDE, SIDE)
    warmth = cover / 10 - heights
    data = TensorDataset(cover, heights, warmth)
    batches = DataLoader(
        data,
        sampler=BatchSampler(RandomSampler(data, num_samples=EPOCH * BATCH), BATCH, drop_last=True),
        batch_size=None,
        num_workers=2,
        pin_memory=True,
        persistent_workers=True,
    )
    trainer = L.Trainer(
        precision="bf16-mixed", enable_checkpointing=False, callbacks=run.callbacks, **run.trainer
    )
    trainer.fit(Warmth(run.fixed), batches)


if __name__ == "__main__":
    main(arguments(STEPS))
