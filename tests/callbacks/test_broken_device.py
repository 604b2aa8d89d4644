"""A device that an error has broken: CUDA answers each call after it with that same error."""

from types import SimpleNamespace

import pytest
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.loggers import CSVLogger

from lightning_gpuprof.callbacks import deferred_loss
from lightning_gpuprof.callbacks.batch_size_advisor import BatchSizeAdvisor
from lightning_gpuprof.callbacks.deferred_loss import DeferredLoss
from lightning_gpuprof.callbacks.memory_snapshot import MemorySnapshot
from lightning_gpuprof.callbacks.phase_timer import PhaseTimer
from lightning_gpuprof.memory.device import MemoryReading
from lightning_gpuprof.records.reader import read_run

SAID = "CUDA error: device-side assert triggered"
FAILS_AT = 14


ANSWERS = {
    "new_event": object(),
    "query": True,
    "capturing": False,
    "elapsed_ns": 1000,
    "read": MemoryReading(1, 2, 1, 2, 0, 90, 100, 0, 0),
    "listen_for_oom": True,
}


class Device:
    """Events, memory, history and copies that work until the device is broken."""

    broken = False
    answered_broken = 0

    def ask(self, answer=None):
        if self.broken:
            self.answered_broken += 1
            raise RuntimeError(SAID)
        return answer

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_: self.ask(ANSWERS.get(name))

    def __deepcopy__(self, memo):
        return self

    def copy(self, values, **_):
        return self.ask(
            SimpleNamespace(ready=lambda: self.ask(False), result=lambda: self.ask(values))
        )


class Asserts(BoringModel):
    device_used = None

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        self.log("loss", loss["loss"])
        if batch_idx == FAILS_AT:
            self.device_used.broken = True
            raise RuntimeError(SAID)
        return loss


@pytest.mark.parametrize("alone", [None, 0, 1, 2, 3])
def test_the_error_that_broke_the_device_goes_on_and_what_was_measured_is_kept(
    tmp_path, monkeypatch, alone
):
    device = Device()
    monkeypatch.setattr(deferred_loss, "with_room", lambda room, on: device.copy)
    callbacks = [
        # A busy machine is no reason to leave steps without marks here.
        PhaseTimer(window=5, device_marks=device, overhead_budget=1.0),
        BatchSizeAdvisor(window=5, probe=lambda on: device, console=False),
        MemorySnapshot(history=lambda on: device),
        DeferredLoss(window=5),
    ]
    if alone is not None:
        callbacks = [callbacks[0]] if not alone else [callbacks[0], callbacks[alone]]
    trainer = Trainer(
        callbacks=callbacks,
        logger=CSVLogger(tmp_path),
        max_epochs=1,
        limit_train_batches=20,
        limit_val_batches=0,
    )
    model = Asserts()
    model.device_used = device
    with pytest.raises(RuntimeError) as raised:
        trainer.fit(model)
    assert str(raised.value) == SAID
    # It is the program's own, not one of ours that came while that one was told of.
    assert raised.traceback[-1].path.name == "test_broken_device.py"
    assert raised.traceback[-1].name == "training_step"
    session = read_run(trainer.logger.log_dir)[0].sessions[0]
    assert session.end.status == "exception"
    assert SAID in session.end.error
    assert session.steps >= FAILS_AT - 1
    assert device.answered_broken
