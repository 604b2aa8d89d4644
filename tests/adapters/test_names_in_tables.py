"""Each name in the adapters' tables is one of the installed Lightning's or torch's, public or not.

Actions are taken from Trainers that run; functions, files and classes from the packages' sources.
"""

import ast
import importlib.util
import re
from functools import cache
from itertools import chain
from pathlib import Path

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch import __version__ as lightning_version
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.profilers import Profiler
from packaging.version import Version

from lightning_gpuprof.adapters import actions, callback_hooks, frames, lightning, loaders
from lightning_gpuprof.adapters.autograd import STACK_OF_NODE

PACKAGE = Path(__file__).parents[2] / "lightning_gpuprof"


class Names(Profiler):
    """Notes which actions a Trainer asks for."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def start(self, action_name):
        self.names.add(actions.parse_action(action_name).name)

    def stop(self, action_name):
        pass


class Failing(BoringModel):
    def training_step(self, batch, batch_idx):
        raise ValueError("planted")


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """The names of all actions of a fit, a resumed and a failing one, and of the evaluations."""
    folder, profiler = tmp_path_factory.mktemp("actions"), Names()

    def trainer(**options):
        more = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
        limits = {f"limit_{stage}_batches": 2 for stage in ("train", "val", "test", "predict")}
        return Trainer(default_root_dir=folder, profiler=profiler, **more, **limits, **options)

    saving = ModelCheckpoint(folder, save_last=True)
    trainer(max_epochs=1, gradient_clip_val=1.0, callbacks=[saving]).fit(BoringModel())
    trainer(max_epochs=2).fit(BoringModel(), ckpt_path=saving.last_model_path)
    with pytest.raises(ValueError, match="planted"):
        trainer(max_epochs=1).fit(Failing())
    for stage in ("validate", "test", "predict"):
        getattr(trainer(), stage)(BoringModel())
    return profiler.names


WITHOUT_ACTION = {"prepare_data", "on_save_checkpoint"}
"""Hooks: the first is an action where a program has it, the second from Lightning 2.5 on."""
NEWER_ACTIONS = {"save_checkpoint": "2.5", actions.LOADER_SETUP_ACTION: "2.7"}
"""Actions that earlier versions of Lightning do not ask for."""


@pytest.mark.parametrize(
    "table", [actions.PHASES, actions.LOOP_EVENTS, dict.fromkeys(actions.ENDS)]
)
def test_each_action_is_one_that_a_trainer_asks_for(seen, table):
    version = Version(lightning_version)
    newer = {name for name, since in NEWER_ACTIONS.items() if version < Version(since)}
    assert set(table) - seen <= WITHOUT_ACTION | newer
    assert all(hasattr(LightningModule, name) for name in WITHOUT_ACTION)


@cache
def functions(package, file):
    """The functions that are defined in files of this name in a package."""
    spec = importlib.util.find_spec(package)
    paths = Path(spec.origin).parent.rglob(file)
    return {
        node.name
        for path in paths
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    }


def test_each_frame_of_lightning_is_a_function_of_it():
    every = functions("lightning", "*.py")
    named = {*frames.HOOK_CALLERS, *frames.PHASE_BY_HOOK, *frames.PHASE_BY_LIGHTNING_FUNCTION}
    assert named | set(frames.LOG_METHODS) <= every
    for file in frames.PHASE_BY_LIGHTNING_FILE:
        assert functions("lightning", file), file
    for file, names in frames.LOOPS.items():
        assert set(names) <= functions("lightning", file), file


def test_each_frame_of_torch_is_a_function_of_it():
    assert frames.MODULE_CALL in functions("torch.nn.modules", frames.MODULE_FILE)
    assert functions("torch.utils", frames.CHECKPOINT_FILE)
    assert functions("torch.utils.data", frames.LOADER_FILE)
    for file in frames.FILE_ACCESS_FILES:
        assert functions("torch", file), file
    in_workers = functions("torch.utils.data", "worker.py") | functions(
        "torch.utils.data", "fetch.py"
    )
    assert {frames.WORKER_LOOP, frames.WORKER_MAKES_BATCH} <= in_workers


def kinds():
    """Return the class names by which the package asks what an object is, wherever it does."""
    asked = (
        re.findall(r'is_kind\([^,()]+, "(\w+)"\)', p.read_text()) for p in PACKAGE.rglob("*.py")
    )
    return {*chain.from_iterable(asked), *lightning.FILE_LOGGERS, *lightning.TAKES_FILES}


OTHERS = {"int", "GpuProfCallback", "Metric", "MetricCollection"}
"""Of Python, of this package, of torchmetrics."""


def test_each_class_that_is_asked_for_by_name_exists():
    source = "".join(
        path.read_text(encoding="utf-8")
        for package in ("lightning", "torch._dynamo")
        for path in Path(importlib.util.find_spec(package).origin).parent.rglob("*.py")
    )
    classes = set(re.findall(r"^class (\w+)", source, re.MULTILINE))
    assert kinds() - OTHERS - classes == set()
    assert len(kinds()) > 8


def test_each_setting_of_a_trainer_is_an_attribute_of_it(tmp_path):
    trainer = Trainer(default_root_dir=tmp_path, logger=False)
    assert [name for name in lightning.TRAINER_SETTINGS if not hasattr(trainer, name)] == []


def test_methods_of_loggers_and_loaders_exist():
    for kind in lightning.FILE_LOGGERS:
        logger = getattr(importlib.import_module("lightning.pytorch.loggers"), kind)
        assert all(callable(getattr(logger, name)) for name in lightning.LOGGING_METHODS)
    loader = torch.utils.data.DataLoader([1])
    assert getattr(loader, loaders.WORKER_INIT) is None
    assert callable(getattr(loader, loaders.MAKES_ITERATOR))


def test_anomaly_detection_leaves_the_stack_in_the_graph():
    with torch.autograd.set_detect_anomaly(True):
        node = torch.ones(1, requires_grad=True).exp().grad_fn
    assert STACK_OF_NODE in node.metadata


def test_hooks_of_callbacks_exist_and_those_of_batches_are_the_ones_a_step_calls():
    names = ("BATCH_START", "BATCH_END", "BEFORE_BACKWARD", "AFTER_BACKWARD")
    named = {getattr(callback_hooks, name) for name in names}
    assert named <= set(callback_hooks.PER_BATCH_HOOKS) < set(callback_hooks.HOOKS)
    assert {"setup", "teardown", "on_exception"} <= set(callback_hooks.HOOKS)
    evaluations = {
        callback_hooks.hook_in(stage, callback_hooks.BATCH_END)
        for stage in ("fit", "validate", "test", "predict")
    }
    assert evaluations <= set(callback_hooks.HOOKS)
