"""How does a crane swing least? An actor learns in the dreams of a world model, clean.

Each dreamt moment follows from the last one's state and the action chosen in it, so the loop over
moments is needed, as are its many small steps backward. Returns are worked out backwards over
whole rows of dreams at once, and the world's own learning goes through nn.GRU in one call.
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

STEPS = 160
DRIVES, MOMENTS, SENSORS, ACTIONS, BATCH, WIDTH, AHEAD = 8000, 16, 12, 3, 40, 160, 10


class Crane(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.world = nn.GRU(SENSORS + ACTIONS, WIDTH, batch_first=True)
        self.sees = nn.Linear(WIDTH, SENSORS)
        self.gains = nn.Linear(WIDTH, 1)
        self.actor = nn.Sequential(nn.Linear(WIDTH, 128), nn.SiLU(), nn.Linear(128, ACTIONS))

    def dream(self, state):
        gains = []
        for _ in range(AHEAD):
            action = self.actor(state).tanh()
            seen = torch.cat([self.sees(state), action], dim=1).unsqueeze(1)
            state = self.world(seen, state.unsqueeze(0))[1].squeeze(0)
            gains.append(self.gains(state).squeeze(1))
        return torch.stack(gains)

    def training_step(self, batch, batch_idx):
        sensors, actions, gained = batch
        states, _ = self.world(torch.cat([sensors, actions], dim=2))
        learnt = nn.functional.mse_loss(self.sees(states[:, :-1]), sensors[:, 1:])
        learnt = learnt + nn.functional.mse_loss(self.gains(states).squeeze(2), gained)
        returns = (0.95 ** torch.arange(AHEAD, device=self.device)) @ self.dream(states[:, -1])
        loss = learnt - 0.01 * returns.mean()
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=5e-4, fused=True)


def main(run: Run) -> None:
    sensors = torch.randn(DRIVES, MOMENTS, SENSORS).cumsum(dim=1) * 0.3
    actions = torch.rand(DRIVES, MOMENTS, ACTIONS) * 2 - 1
    drives = TensorDataset(sensors, actions, -sensors[:, :, 0].abs())
    batches = BatchSampler(RandomSampler(drives), BATCH, drop_last=True)
    data = DataLoader(drives, sampler=batches, batch_size=None)
    trainer = L.Trainer(
        callbacks=run.callbacks, gradient_clip_val=10.0, enable_checkpointing=False, **run.trainer
    )
    trainer.fit(Crane(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
