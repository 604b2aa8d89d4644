"""The progress bars show what Lightning's show, and make no host sync."""

import pytest
import torch
from inspected import inspected
from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import TQDMProgressBar
from lightning.pytorch.demos.boring_classes import BoringModel

from lightning_gpuprof.callbacks.progress_bar import DeferredProgressBar


class Logging(BoringModel):
    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)["loss"]
        self.losses = [*getattr(self, "losses", []), loss.item()]
        self.log("kl", loss.detach() / 2, prog_bar=True)
        self.log("both", loss.detach(), prog_bar=True, on_step=True, on_epoch=True)
        self.log("plain", 0.5, prog_bar=True)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val", self.layer(batch).sum(), prog_bar=True)


def watching(bar_class):
    """Return a bar that keeps what it shows at each refresh."""

    class Watched(bar_class):
        def get_metrics(self, trainer, pl_module):
            shown = super().get_metrics(trainer, pl_module)
            kind = "seen" if trainer.training else "seen_in_validation"
            self.__dict__.setdefault(kind, []).append(dict(shown))
            return shown

    return Watched


def fit(bar, *callbacks, model=None, **options):
    torch.manual_seed(0)
    model = model or Logging()
    trainer = Trainer(
        **{
            "max_epochs": 2,
            "limit_train_batches": 6,
            "limit_val_batches": 2,
            "logger": False,
            "enable_progress_bar": True,
            "callbacks": [bar, *callbacks],
        }
        | options
    )
    trainer.fit(model)
    return model


def test_it_shows_what_lightnings_own_shows_and_the_loss():
    their_bar, our_bar = watching(TQDMProgressBar)(), watching(DeferredProgressBar)()
    fit(their_bar)
    model = fit(our_bar)
    for kind in ("seen", "seen_in_validation"):
        without_loss = [
            {name: value for name, value in shown.items() if name != "loss"}
            for shown in vars(our_bar)[kind]
        ]
        assert without_loss == vars(their_bar)[kind]
    in_steps = [shown["loss"] for shown in our_bar.seen[:6]]
    assert in_steps == model.losses[:6]


def test_it_makes_no_host_sync_where_lightnings_own_does(tmp_path):
    class Quiet(BoringModel):
        def training_step(self, batch, batch_idx):
            loss = super().training_step(batch, batch_idx)["loss"]
            self.log("kl", loss.detach(), prog_bar=True)
            return loss

    found = [
        inspected(tmp_path, Quiet(), bar_class(), enable_progress_bar=True).sites
        for bar_class in (TQDMProgressBar, DeferredProgressBar)
    ]
    assert [[site.owner for site in sites] for sites in found] == [["lightning"], []]


def test_lightnings_own_logging_is_put_back():
    bar = DeferredProgressBar()

    class Broken(BoringModel):
        def training_step(self, batch, batch_idx):
            raise RuntimeError("broken")

    model = Broken()
    with pytest.raises(RuntimeError, match="broken"):
        fit(bar, model=model)
    assert "log" not in vars(model.trainer.fit_loop.epoch_loop._results)
