"""The slim installation of the docs is what pyproject.toml requires, less what it leaves out.

`make environments`, which CI runs, installs it.
"""

import importlib.util
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LEFT_OUT = {"torch", "lightning", "pytorch-lightning", "tensorboard", "tomli"}


def test_the_slim_installation_has_all_that_is_required_beside_torch_lightning_and_tensorboard():
    path = ROOT / "benchmarks" / "clean_environments.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    required = re.search(r"^dependencies = \[(.*?)^\]", text, re.DOTALL | re.MULTILINE)[1]
    names = set(re.findall(r'^ +"([\w-]+)', required, re.MULTILINE))
    assert names - LEFT_OUT == set(module.slim_requirements())
