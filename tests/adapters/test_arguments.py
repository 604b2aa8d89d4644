"""Functions of Lightning and torch that work for an argument, checked against their sources."""

import ast
import importlib.util
from pathlib import Path

import pytest
import torch
from lightning.pytorch import Trainer

from lightning_gpuprof.adapters import arguments
from lightning_gpuprof.adapters.lightning import finds_unused_parameters


def functions(tree, prefix=""):
    """Yield the functions of a module, those in classes with and without the class."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield node.name
            yield prefix + node.name
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, f"{node.name}.")


@pytest.mark.parametrize("asked", arguments.ASKED_FOR, ids=lambda asked: asked.argument)
def test_each_function_in_the_table_is_one_of_the_installed_package(asked):
    package = Path(importlib.util.find_spec(asked.package).origin).parent
    tree = ast.parse((package / asked.file).read_text(encoding="utf-8"))
    assert set(asked.functions) <= set(functions(tree))


def test_a_function_is_recognized_by_its_file_and_its_name():
    from torch.utils.data._utils import pin_memory

    assert arguments.argument_of(pin_memory.pin_memory.__code__) == "pin_memory"
    assert arguments.argument_of(pin_memory._pin_memory_loop.__code__) is None
    assert arguments.argument_of(torch.nn.Linear.forward.__code__) is None
    assert arguments.argument_of(functions.__code__) is None


def test_whether_ddp_looks_for_unused_parameters_is_an_argument_of_its_strategy(tmp_path):
    options = {"accelerator": "cpu", "devices": 1, "logger": False, "default_root_dir": tmp_path}
    assert finds_unused_parameters(Trainer(strategy="ddp_find_unused_parameters_true", **options))
    assert not finds_unused_parameters(Trainer(strategy="ddp", **options))
    assert not finds_unused_parameters(Trainer(**options))
