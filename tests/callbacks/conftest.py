import importlib.util
import sys
from pathlib import Path

import pytest
from lightning.pytorch.loops.training_epoch_loop import _TrainingEpochLoop


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


@pytest.fixture(scope="session")
def repeated():
    """Batches that this Lightning trains again after a resume from `on_train_batch_end`."""
    return 0 if hasattr(_TrainingEpochLoop, "restarted_on_train_batch_end") else 1
