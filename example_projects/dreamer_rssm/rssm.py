"""A recurrent state-space world model, as Dreamer learns it: pictures to a latent state."""

import lightning as L
import torch
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence

EMBEDDED, STATE, LATENT = 128, 128, 24


def encoder() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 16, 4, stride=2, padding=1),
        nn.ELU(),
        nn.Conv2d(16, 32, 4, stride=2, padding=1),
        nn.ELU(),
        nn.Conv2d(32, 32, 4, stride=2, padding=1),
        nn.ELU(),
        nn.Flatten(),
        nn.Linear(32 * 3 * 3, EMBEDDED),
    )


def decoder() -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(STATE + LATENT, 32 * 3 * 3),
        nn.Unflatten(1, (32, 3, 3)),
        nn.ConvTranspose2d(32, 32, 4, stride=2, padding=1),
        nn.ELU(),
        nn.ConvTranspose2d(32, 16, 4, stride=2, padding=1),
        nn.ELU(),
        nn.ConvTranspose2d(16, 1, 4, stride=2, padding=1),
    )


class Recurrent(nn.Module):
    """One moment: the state goes on, and a latent says what the picture adds to it."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(LATENT + 1, STATE)
        self.prior = nn.Linear(STATE, 2 * LATENT)
        self.posterior = nn.Linear(STATE + EMBEDDED, 2 * LATENT)

    def forward(
        self, state: Tensor, latent: Tensor, torque: Tensor, embedded: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the next state, its latent, and how far the picture was not foreseen."""
        state, prior = self.foresee(state, latent, torque)
        posterior = normal(self.posterior(torch.cat([state, embedded], dim=1)))
        return state, posterior.rsample(), kl_divergence(posterior, prior).mean()

    def foresee(self, state: Tensor, latent: Tensor, torque: Tensor) -> tuple[Tensor, Normal]:
        """Return the next state and what is expected of its latent, without a picture."""
        state = self.cell(torch.cat([latent, torque], dim=1), state)
        return state, normal(self.prior(state))


def normal(numbers: Tensor) -> Normal:
    mean, spread = numbers.chunk(2, dim=-1)
    return Normal(mean, nn.functional.softplus(spread) + 0.1, validate_args=False)


class WorldModel(L.LightningModule):
    """Works moment by moment, and reads every part of the loss in every step."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder(), decoder()
        self.world_model = Recurrent()
        self.reward = nn.Sequential(nn.Linear(STATE + LATENT, 64), nn.ELU(), nn.Linear(64, 1))
        self.sums = {"pictures": 0.0, "rewards": 0.0, "kl": 0.0}

    def encode(self, pictures: Tensor) -> Tensor:
        """Return (batch, moments, EMBEDDED) of pictures (batch, moments, 1, side, side)."""
        each = [self.encoder(pictures[:, moment]) for moment in range(pictures.shape[1])]
        return torch.stack(each, dim=1)

    def decode(self, states: Tensor) -> Tensor:
        """Return the pictures of states (batch, moments, STATE + LATENT)."""
        each = [self.decoder(states[:, moment]) for moment in range(states.shape[1])]
        return torch.stack(each, dim=1)

    def remember(self, parts: dict[str, Tensor]) -> None:
        """Add this step's parts of the loss to the epoch's sums."""
        for name, part in parts.items():
            self.sums[name] += part.item()

    def training_step(self, batch: tuple[Tensor, Tensor, Tensor], batch_idx: int) -> Tensor:
        pictures, torques, rewards = batch
        embedded = self.encode(pictures)
        states, kl = self.observe(embedded, torques)
        parts = {
            "pictures": nn.functional.mse_loss(self.decode(states), pictures),
            "rewards": nn.functional.mse_loss(self.reward(states).squeeze(-1), rewards),
            "kl": 0.1 * kl,
        }
        self.remember(parts)
        return torch.stack(list(parts.values())).sum()

    def observe(self, embedded: Tensor, torques: Tensor) -> tuple[Tensor, Tensor]:
        """Follow an episode; the recurrence itself has to go moment by moment."""
        state = embedded.new_zeros(len(embedded), STATE)
        latent = embedded.new_zeros(len(embedded), LATENT)
        states, kls = [], []
        for moment in range(embedded.shape[1]):
            torque = torques[:, moment, None]
            state, latent, kl = self.world_model(state, latent, torque, embedded[:, moment])
            kls.append(kl)
            states.append(torch.cat([state, latent], dim=1))
        return torch.stack(states, dim=1), torch.stack(kls).mean()

    def epoch_sums(self) -> dict[str, float]:
        return self.sums

    def on_train_epoch_end(self) -> None:
        steps = self.trainer.num_training_batches
        for name, total in self.epoch_sums().items():
            self.log(name, total / steps)
            self.sums[name] = 0.0

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=1e-3)
