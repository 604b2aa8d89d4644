import sys

import pytest
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.loggers import CSVLogger
from look_models import Clock
from torch.overrides import _get_current_function_mode_stack
from torch.utils.data import DataLoader, TensorDataset

from lightning_gpuprof.callbacks.watches.function_watch import FunctionWatch
from lightning_gpuprof.records.function_calls import function_notes
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import Note, ProbeDisabled


@pytest.fixture(autouse=True)
def nothing_compiled():
    """What other tests compiled in this process is forgotten: after it no look is taken."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is not None:
        dynamo.counters.clear()


@pytest.fixture
def look(tmp_path):
    """Trains a model under a function watch and returns what it noted."""

    def fitted(model, batches=6, watch=True, max_epochs=1, failures=0, callbacks=(), **options):
        watches = [FunctionWatch(clock=Clock())] if watch else []
        trainer = Trainer(
            callbacks=[*callbacks, *watches],
            logger=CSVLogger(tmp_path),
            max_epochs=max_epochs,
            **options,
        )
        torch.manual_seed(0)
        data = TensorDataset(torch.randn(4 * batches, 32), torch.randint(9, (4 * batches, 12)))
        trainer.fit(model, DataLoader(data, batch_size=4))
        assert _get_current_function_mode_stack() == []
        if not watch:
            return None
        session = read_run(trainer.logger.log_dir)[0].sessions[0]
        assert len(session.all(ProbeDisabled)) == failures
        return function_notes(session.all(Note))

    return fitted
