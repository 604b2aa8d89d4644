import importlib.util
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def planted():
    """`tests/planted.py`: training runs on a fake clock with planted delays."""
    path = Path(__file__).parents[1] / "planted.py"
    spec = importlib.util.spec_from_file_location("planted", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["planted"] = module  # its classes are pickled into data workers
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def clock(planted):
    return planted.FakeClock()
