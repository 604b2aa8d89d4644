"""Which rhythm a heart is in, from ten seconds of twelve leads: an LSTM of cuDNN's.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments, sized
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

STEPS, EPOCH = 110, 200
BATCH, LONG, WIDTH, LAYERS = sized((256, 1000, 512, 2), (4, 80, 16, 1))
LEADS, RHYTHMS = 12, 9


class Hearts(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.waves = nn.Conv1d(LEADS, WIDTH // 2, 16, 8)
        self.reads = nn.LSTM(WIDTH // 2, WIDTH, LAYERS, batch_first=True, bidirectional=True)
        self.rhythm = nn.Linear(2 * WIDTH, RHYTHMS)

    def training_step(self, batch, batch_idx):
        leads, rhythms = batch
        states, _ = self.reads(self.waves(leads).relu().transpose(1, 2))
        loss = nn.functional.cross_entropy(self.rhythm(states.mean(dim=1)), rhythms)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)
        return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.95)]


def main(run: Run) -> None:
    leads = torch.rand(8 * BATCH, LEADS, LONG, dtype=torch.float32).to(torch.bfloat16)
    data = TensorDataset(leads, torch.randint(RHYTHMS, (8 * BATCH,)))
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
    trainer.fit(Hearts(), batches)


if __name__ == "__main__":
    main(arguments(STEPS))
