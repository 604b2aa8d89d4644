import numpy as np
import torch
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset
from torch.utils.data import DataLoader

from lightning_gpuprof.analysis.run.run import analyze_run
from lightning_gpuprof.callbacks.phase_timer import PhaseTimer
from lightning_gpuprof.findings.engine import evaluate_rules
from lightning_gpuprof.findings.registry import rules
from lightning_gpuprof.records.phases import FETCHES
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import StepFlag


class Model(BoringModel):
    def __init__(self, **options):
        super().__init__()
        self.options = options

    def train_dataloader(self):
        return DataLoader(RandomDataset(32, 16), batch_size=4)

    def val_dataloader(self):
        return DataLoader(RandomDataset(32, 12), batch_size=2, **self.options)


def trained(fit, model, **options):
    torch.manual_seed(0)
    options |= {"max_epochs": 4, "val_check_interval": 2}
    return read_run(fit(PhaseTimer(), model=model, **options).log_dir)


def test_each_validation_has_the_start_of_its_loader_its_first_batch_and_the_others(fit):
    records = trained(fit, Model(num_workers=1), limit_val_batches=4)

    session = records[0].sessions[-1]
    loader = session.start.validation_loader
    assert (loader.num_workers, loader.batch_size, loader.length) == (1, 2, 4)
    assert (loader.persistent_workers, loader.in_memory) == (False, False)
    validated = (session.columns["flags"] & StepFlag.VALIDATION) != 0
    assert validated.sum() == 8
    parts = [session.columns[f"part/validation/{part}"] for part in FETCHES]
    for part in parts:
        assert ((part > 0) == validated).all()
    assert (np.sum(parts, axis=0) <= session.columns["phase/validation"]).all()
    # A process takes longer to start than this model to train a few rows.
    (found,) = evaluate_rules(analyze_run(records, {}), [rules()["worker-startup"]]).findings
    assert found.places[0].phase == "validation"
    assert found.evidence["startup_per_validation_ns"] < found.evidence["per_validation_ns"]


def test_a_start_outside_of_validations_is_none_of_theirs(fit):
    class Resumed(Model):
        def on_train_batch_start(self, batch, batch_idx):
            # As Lightning does where a run goes on from a checkpoint behind a validation.
            loop = self.trainer.fit_loop.epoch_loop.val_loop
            loop.setup_data()
            loop.reset()

    columns = trained(fit, Resumed())[0].sessions[-1].columns
    validated = (columns["flags"] & StepFlag.VALIDATION) != 0
    started = columns["part/validation/loader start"]
    assert ((started > 0) == validated).all()
    assert not validated.all()
