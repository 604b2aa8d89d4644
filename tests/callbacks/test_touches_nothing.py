"""The default set of parts changes nothing around it; the exceptions are named here, and in docs/.

A program is trained with and without the callback. Its own hooks look around while that goes on,
and the test does once it has ended: by itself, by an error or by Ctrl-C.
"""

import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
from collections import Counter
from pathlib import Path

import pytest
import torch
from fake_card import FakeCard, FakeStats
from fake_device import FakeDevice
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.strategies import SingleDeviceStrategy
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack
from torch.utils.data import DataLoader

from lightning_gpuprof import BatchSizeAdvisor, DeferredLoss, DeviceMonitor, GpuProfCallback

STEPS = 18
"""The default window of torch.profiler (steps 10 to 14) is among them."""
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "what-it-touches.md"


class Around:
    """What is around a fit: torch's modules and classes, modes, settings of the process."""

    def __init__(self):
        self.owners = {}
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] == "torch" and module is not None:
                self.owners[name] = dict(vars(module))
                for one in vars(module).values():
                    if isinstance(one, type) and one.__module__.startswith("torch"):
                        self.owners[f"{one.__module__}.{one.__qualname__}"] = dict(vars(one))
        self.modes = (*_get_current_function_mode_stack(), *_get_current_dispatch_mode_stack())
        self.settings = {
            "environment": dict(os.environ),
            "warnings.filters": list(warnings.filters),
            "warnings.showwarning": warnings.showwarning,
            "torch threads": (torch.get_num_threads(), torch.get_num_interop_threads()),
            "anomaly": torch.is_anomaly_enabled(),
            "deterministic": torch.are_deterministic_algorithms_enabled(),
            "precision": torch.get_float32_matmul_precision(),
            "default dtype": torch.get_default_dtype(),
            "cudnn": (torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic),
            "random state": torch.initial_seed(),
            "excepthooks": (sys.excepthook, threading.excepthook),
            "tracing": (sys.gettrace(), sys.getprofile()),
            "gc": (gc.isenabled(), gc.get_debug()),
            "signals": {one: signal.getsignal(one) for one in signal.valid_signals()},
            "gc.callbacks": list(gc.callbacks),
            "gc.set_threshold": gc.get_threshold(),
            "sys.setswitchinterval": sys.getswitchinterval(),
        }

    def changed(self, now):
        """Return the names of what is another one now."""
        found = {
            f"{owner}.{name}"
            for owner, before in self.owners.items()
            for name, value in before.items()
            if now.owners.get(owner, {}).get(name) is not value
        }
        found |= {name for name, value in self.settings.items() if now.settings[name] != value}
        return found | ({"modes"} if now.modes != self.modes else set())


class Looks(BoringModel):
    """Notes what is around at several moments of its training."""

    def __init__(self, ends="by itself"):
        super().__init__()
        self.ends, self.seen = ends, {}

    def look(self, moment):
        self.seen[moment] = around = Around()
        around.stood_in_for = stood_in_for(self.trainer, self)

    def training_step(self, batch, batch_idx):
        if batch_idx in (0, 1, 6, 11, 13):
            self.look(f"step {batch_idx}")
        if batch_idx == 15 and self.ends == "by an error":
            raise ValueError("planted")
        if batch_idx == 15 and self.ends == "by Ctrl-C":
            raise KeyboardInterrupt
        loss = super().training_step(batch, batch_idx)["loss"]
        self.log("train_loss", loss)
        return loss

    def on_train_start(self):
        self.look("train start")

    def on_after_backward(self):
        if self.global_step == 7:
            self.look("after backward")

    def on_validation_start(self):
        self.look("validation")

    def predict_step(self, batch, batch_idx):
        if batch_idx in (1, 11, 13):
            self.look(f"step {batch_idx}")
        return self(batch)

    def train_dataloader(self):
        return DataLoader(RandomDataset(32, STEPS), num_workers=0)

    predict_dataloader = train_dataloader


def stood_in_for(trainer, model):
    """Return the attributes of the program's and Lightning's objects that are not their own."""
    loop = trainer.fit_loop
    owners = {
        "Trainer": trainer,
        "fit_loop": loop,
        "epoch_loop": loop.epoch_loop,
        "val_loop": loop.epoch_loop.val_loop,
        "automatic_optimization": loop.epoch_loop.automatic_optimization,
        "predict_loop": trainer.predict_loop,
        "strategy": trainer.strategy,
        "precision_plugin": trainer.precision_plugin,
        "module": model,
        "layer": model.layer,
        "logger": trainer.logger,
        "experiment": trainer.logger.experiment,
        "loader": trainer.train_dataloader,
    }
    found = set()
    for name, owner in owners.items():
        for key, value in getattr(owner, "__dict__", {}).items():
            ours = type(value).__module__.startswith("lightning_gpuprof")
            if ours or (callable(value) and callable(getattr(type(owner), key, None))):
                found.add(f"{name}.{key}")
    return found


def train(tmp_path, *callbacks, model=None, stage="fit", **options):
    options = {"limit_val_batches": 1, "max_epochs": 1, **options}
    trainer = Trainer(
        logger=TensorBoardLogger(tmp_path),
        callbacks=list(callbacks),
        log_every_n_steps=5,
        **options,
    )
    model = model or Looks()
    error = {"by an error": ValueError, "by Ctrl-C": SystemExit}.get(model.ends)
    if error is None:
        getattr(trainer, stage)(model)
    else:
        with pytest.raises(error):
            trainer.fit(model)
    return trainer, model


def children():
    """Return the processes that this one has started and that are there still."""
    found = {one.pid for one in multiprocessing.active_children()}
    for task in Path("/proc/self/task").glob("*/children"):
        found |= set(map(int, task.read_text().split()))
    return found


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Changes that a fit makes without the callback, such as names that torch sets when needed."""
    folder = tmp_path_factory.mktemp("plain")
    train(folder)
    before = Around()
    _, model = train(folder)
    found = set().union(*(before.changed(now) for now in model.seen.values()))
    return found | before.changed(Around())


WINDOW = ("step 11", "step 13")
"""Moments in our own window of torch.profiler."""
AROUND = {"gc.callbacks", "sys.setswitchinterval"}
"""A function that takes full collections out of phases; the milliseconds before a sample."""
IN_WINDOW = {
    "torch.autograd.profiler._prepare_profiler",  # tells that another profiler is about to begin
    "torch.autograd.profiler._is_profiler_enabled",  # torch's own: it is
}
STOOD_IN_FOR = {
    "Trainer.profiler",
    "fit_loop._load_combined_loader_states",
    "val_loop.run",
    "val_loop.reset",
    "module.log",
    "logger.log_metrics",
    "logger.log_hyperparams",
    "logger.log_graph",
    "logger.save",
}
"""Attributes of single objects for the length of a fit, beside the `add_` of a logger's writer."""
IN_EVALUATION = STOOD_IN_FOR - {
    "fit_loop._load_combined_loader_states", "val_loop.run", "val_loop.reset",
} | {"predict_loop.setup_data"}  # fmt: skip


class Now:
    """The clock, for a fake device that would like to move it."""

    now_ns = property(lambda self: time.perf_counter_ns(), lambda self, value: None)


def on_fake_device():
    callback = GpuProfCallback()
    timer, *_ = parts = callback.parts
    timer.device_marks = FakeDevice(Now(), latency_ns=1_000)
    fakes = {
        BatchSizeAdvisor: BatchSizeAdvisor(probe=lambda device: FakeCard(8)),
        DeviceMonitor: DeviceMonitor(stats=lambda device: FakeStats()),
    }
    callback.parts = [fakes.get(type(part), part) for part in parts]
    return callback


@pytest.fixture(params=[GpuProfCallback, on_fake_device])
def callback(request):
    return request.param()


def test_there_are_at_most_ten_parts_and_each_can_be_switched_off(tmp_path):
    most = GpuProfCallback(modules=["layer"], memory_snapshot=True)
    assert len(most.parts) <= 10
    assert {type(part) for part in GpuProfCallback().parts} < {type(part) for part in most.parts}
    off = dict.fromkeys(("timing", "trace", "facts", "lines", "batch_size", "device_stats"), False)
    off["max_captures"] = 0
    callback = GpuProfCallback(**off, metrics=(), report=False)
    assert not callback.parts
    for name in off:
        some = GpuProfCallback(**{name: off[name]}, report=False)
        fewer = 2 if name == "timing" else 1  # captures count steps by the timing
        assert len(some.parts) == len(GpuProfCallback().parts) - fewer
        train(tmp_path / name, some, model=Plain())


@pytest.mark.parametrize("ends", ["by itself", "by an error", "by Ctrl-C", "predict"])
def test_nothing_around_a_fit_or_an_evaluation_is_changed(tmp_path, plain, callback, ends):
    options, expected = {"model": Looks(ends)}, STOOD_IN_FOR
    if ends == "predict":
        options, expected = {"stage": "predict"}, IN_EVALUATION
        train(tmp_path, **options)  # what torch sets when needed, without the callback
    before, threads, processes = Around(), set(threading.enumerate()), children()
    trainer, model = train(tmp_path, callback, **options)

    during = {moment: before.changed(now) - plain for moment, now in model.seen.items()}
    assert set(WINDOW) < set(during)
    for moment, changed in during.items():
        assert changed <= AROUND | (IN_WINDOW if moment in WINDOW else set()), moment
    assert before.changed(Around()) <= plain
    assert not set(threading.enumerate()) - threads
    assert not children() - processes

    stood_in = set().union(*(now.stood_in_for for now in model.seen.values()))
    assert {name for name in stood_in if not name.startswith("experiment.add_")} == expected
    assert not stood_in_for(trainer, model)


class Plain(Looks):
    def look(self, moment):
        pass


class Counts(TorchDispatchMode):
    """Counts the operators that run in its thread."""

    def __init__(self):
        super().__init__()
        self.operators = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.operators[str(func)] += 1
        return func(*args, **(kwargs or {}))


def operators(folder, *callbacks):
    torch.manual_seed(0)
    with Counts() as counts:
        _, model = train(folder, *callbacks, model=Plain())
    return counts.operators, model.layer.weight


DEFERRED = {"aten.stack.default", "aten._to_copy.default", "aten.cat.default"}


@pytest.mark.parametrize("deferred", [True, False])
def test_nothing_is_computed_but_for_the_deferred_loss(tmp_path, callback, deferred):
    if not deferred:
        callback.parts = [one for one in callback.parts if not isinstance(one, DeferredLoss)]
    without, weights = operators(tmp_path / "without")
    found, same_weights = operators(tmp_path / "with", callback)
    more = {name for name, count in (found - without).items() if not name.startswith("profiler.")}
    assert more <= (DEFERRED if deferred else set())
    assert not without - found
    assert torch.equal(weights, same_weights)


def test_no_collective_is_added(tmp_path, monkeypatch, callback):
    def called(folder, *callbacks):
        names = Counter()

        def counted(name, inner):
            return lambda *args, **kwargs: (names.update([name]), inner(*args, **kwargs))[1]

        with monkeypatch.context() as patched:
            for name in ("broadcast", "barrier", "reduce", "all_gather"):
                inner = getattr(SingleDeviceStrategy, name)
                patched.setattr(SingleDeviceStrategy, name, counted(name, inner))
            train(folder, *callbacks, model=Plain())
        return names

    assert called(tmp_path / "with", callback) == called(tmp_path / "without")


def test_the_page_names_each_exception():
    page = PAGE.read_text(encoding="utf-8")
    attributes = {name.split(".")[1] for name in STOOD_IN_FOR | IN_EVALUATION}
    for name in (*AROUND, "_prepare_profiler", *attributes):
        assert f"`{name}`" in page, name
