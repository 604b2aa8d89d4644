"""A two-layer LSTM that forecasts a sensor, gradients clipped by the Trainer.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 220


class Windows(Dataset):
    def __init__(self, series: torch.Tensor, length: int) -> None:
        self.windows = series.unfold(0, length + 1, 1).mT

    def __len__(self) -> int:
        return len(self.windows)

    def __getitems__(self, indices: list[int]) -> torch.Tensor:
        return self.windows[indices]


class Forecast(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(12, 96, num_layers=2, batch_first=True)
        self.head = nn.Linear(96, 12)

    def training_step(self, batch, batch_idx):
        out, _ = self.lstm(batch[:, :-1])
        loss = nn.functional.smooth_l1_loss(self.head(out), batch[:, 1:])
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    series = torch.randn(20_000, 12).cumsum(0) * 0.01
    data = DataLoader(Windows(series, 48), batch_size=48, shuffle=True, collate_fn=lambda x: x)
    options = {**run.trainer, "enable_progress_bar": True}
    trainer = L.Trainer(callbacks=run.callbacks, gradient_clip_val=1.0, **options)
    trainer.fit(Forecast(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
