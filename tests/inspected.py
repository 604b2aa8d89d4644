"""Inspects a model's training in this process."""

import sys
from contextlib import suppress

from lightning.pytorch import Trainer

from lightning_gpuprof.inspect.inspector import InspectionDone, Inspector


def inspected(folder, model, *callbacks, steps=3, new_detector=None, **options):
    """Train a model until it is inspected; return what was found."""
    found = []
    inspector = Inspector(steps=steps, done=found.append, new_detector=new_detector)
    trainer = Trainer(
        **{
            "max_epochs": 1,
            "limit_train_batches": 10,
            "limit_val_batches": 0,
            "enable_checkpointing": False,
            "enable_model_summary": False,
            "enable_progress_bar": False,
            "logger": False,
            "default_root_dir": folder,
            "callbacks": [inspector, *callbacks],
        }
        | options
    )
    with suppress(InspectionDone):
        trainer.fit(model)
    (result,) = found
    return result


def forget_compilations():
    """Forget what earlier tests have compiled: an inspection reports every event of its process."""
    utils = sys.modules.get("torch._dynamo.utils")
    if utils is not None:
        utils.graph_break_reasons.clear()
        utils.guard_failures.clear()
        utils.clear_compilation_metrics()
