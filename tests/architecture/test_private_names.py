"""Private parts of torch and Lightning are named in `adapters/` alone, with their versions."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "lightning_gpuprof"
BY_NAME = ("getattr", "hasattr", "setattr", "delattr", "reach", "attrgetter", "put", "add")
"""Functions that take an attribute's name as a text."""
OF_OTHERS = ("self", "cls", "super()", "sys", "os")
"""Owners whose private names are our own, or documented parts of Python."""
PYTHONS = ("getattr(sys,", "hasattr(sys,")
PRIVATE = re.compile(r"(^|\.)_(?!_)\w")
PRIVATE_MODULE = re.compile(r"^(torch|lightning|pytorch_lightning)\b.*\._(?!_)\w")

ALLOWED = {
    ("runtime/guard.py", "_context"): "of our own parts, where one has it",
    ("runtime/guard.py", "_release"): "of our own parts, where one has it",
    ("recorders/scalars/step_outputs.py", "_batches_that_stepped"): (
        "read once in each step: a call of the adapter would cost a microsecond there (ADR 42)"
    ),
}


def sources() -> dict[str, ast.Module]:
    paths = (path for path in PACKAGE.rglob("*.py") if path.parent.name != "adapters")
    return {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text()) for path in paths}


def defined(tree: ast.Module) -> set[str]:
    """Return the private names that a file gives to things of its own."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if ast.unparse(node.value) in OF_OTHERS:
                names.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def called(node: ast.Call) -> str:
    """Return the name of what is called, without its owner."""
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def private_names(tree: ast.Module, own: set[str]) -> Iterator[str]:
    """Yield the private names of others that a file uses."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            if PRIVATE.match(node.attr) and node.attr not in own and node.attr != "_replace":
                if ast.unparse(node.value) not in OF_OTHERS:
                    yield node.attr
        elif isinstance(node, ast.Call) and called(node) in BY_NAME:
            if ast.unparse(node).startswith(PYTHONS):
                continue
            texts = (a.value for a in node.args if isinstance(a, ast.Constant))
            for text in (text for text in texts if isinstance(text, str)):
                parts = [part for part in text.split(".") if PRIVATE.match(part)]
                yield from (part for part in parts if part not in own)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            module = getattr(node, "module", None) or ""
            for alias in node.names:
                name = f"{module}.{alias.name}".lstrip(".")
                if PRIVATE_MODULE.match(name):
                    yield name
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if re.fullmatch(r"torch(\.\w+)*", node.value) and PRIVATE_MODULE.match(node.value):
                yield node.value


def test_no_file_outside_the_adapters_names_a_private_part_of_torch_or_lightning():
    found = {
        (file, name)
        for file, tree in sources().items()
        for name in set(private_names(tree, defined(tree)))
    }
    assert found - set(ALLOWED) == set(), "move these into lightning_gpuprof/adapters"
    assert set(ALLOWED) - found == set(), "these exceptions are needed no more"


@pytest.mark.parametrize(
    "line",
    [
        "trainer.fit_loop._data_fetcher",
        'getattr(model, "_compiler_ctx", None)',
        'reach(trainer, "fit_loop._data_fetcher")',
        "from torch.utils._pytree import tree_map",
        "from torch import _dynamo",
        "import torch._dynamo",
        'sys.modules.get("torch._dynamo.utils")',
    ],
)
def test_each_way_of_naming_one_is_found(line):
    assert list(private_names(ast.parse(line), own=set()))


@pytest.mark.parametrize("line", ["self._own", "sys._getframe()", "one._mine", "torch.nn.Module"])
def test_names_of_our_own_and_pythons_are_left_alone(line):
    assert not list(private_names(ast.parse(line), own={"_mine"}))


def test_each_adapter_says_in_which_versions_its_names_were_seen():
    for path in (PACKAGE / "adapters").glob("[!_]*.py"):
        tree = ast.parse(path.read_text())
        if path.name != "names.py":
            assert re.search(r"(torch|Lightning) \d\.\d", ast.get_docstring(tree) or ""), path
