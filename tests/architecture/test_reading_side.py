"""TensorBoard imports every installed plugin at start: the reading side must stay light."""

import json
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "lightning_gpuprof"
READING_SIDE = (
    "analysis", "cli", "findings", "hardware", "records", "report", "tab", "traces", "views",
)  # fmt: skip
HEAVY = ("torch", "lightning", "pytorch_lightning", "pandas")

PROBE = """
import importlib, json, sys
loaded = {}
for name in json.loads(sys.argv[1]):
    importlib.import_module(name)
    loaded[name] = [heavy for heavy in json.loads(sys.argv[2]) if heavy in sys.modules]
print(json.dumps(loaded))
"""


def modules(folder: str) -> list[str]:
    return sorted(
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
        for path in (PACKAGE / folder).rglob("*.py")
        if path.name != "__main__.py"
    )


def heavy_imports(names: list[str], heavy: tuple[str, ...]) -> dict[str, list[str]]:
    command = [sys.executable, "-c", PROBE, json.dumps(names), json.dumps(heavy)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    loaded: dict[str, list[str]] = json.loads(output)
    return {name: found for name, found in loaded.items() if found}


def test_no_reading_side_module_imports_torch_lightning_or_pandas():
    names = [name for folder in READING_SIDE for name in modules(folder)]
    assert len(names) > 20
    assert heavy_imports(["lightning_gpuprof", *names], HEAVY) == {}


def test_tensorboard_entry_point_imports_nothing_heavy():
    heavy = (*HEAVY, "numpy", "msgspec", "rich", "yaml")
    entry = ["lightning_gpuprof.tab.loader"]
    # TensorBoard has imported its own base_plugin (which imports numpy) before it imports ours.
    first = "tensorboard.plugins.base_plugin"
    baseline = set(heavy_imports([first], heavy).get(first, []))
    ours = set(heavy_imports([first, *entry], heavy).get(entry[0], []))
    assert ours <= baseline
