"""Loaders that start worker processes amid an epoch, or for each of a validation's loaders."""

import pytest
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset
from lightning.pytorch.utilities import CombinedLoader
from torch.utils.data import DataLoader

from lightning_gpuprof.adapters.loaders import MAKES_ITERATOR
from lightning_gpuprof.analysis.run.run import analyze_run
from lightning_gpuprof.callbacks.phase_timer import PhaseTimer
from lightning_gpuprof.findings.engine import evaluate_rules
from lightning_gpuprof.findings.registry import rules
from lightning_gpuprof.records.phases import FETCHES, FIRST_BATCH, NEXT_BATCHES
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import StepFlag


class Model(BoringModel):
    def training_step(self, batch, batch_idx):
        rows = torch.cat(list(batch.values())) if isinstance(batch, dict) else batch
        return super().training_step(rows, batch_idx)

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        return super().validation_step(batch, batch_idx)


def loader(rows, **options):
    return DataLoader(RandomDataset(32, rows), batch_size=4, **options)


def trained(tmp_path, training, validation=None, **options):
    torch.manual_seed(0)
    plain = {"limit_val_batches": 0} if validation is None else {"num_sanity_val_steps": 0}
    trainer = Trainer(
        default_root_dir=tmp_path, max_epochs=1, callbacks=[PhaseTimer()], **(plain | options)
    )
    trainer.fit(Model(), training, validation)
    return read_run(trainer.log_dir)


def startup(records):
    findings = evaluate_rules(analyze_run(records, {}), [rules()["worker-startup"]]).findings
    titles = ("within epochs", "each validation")
    return next((f for f in findings if any(text in f.title for text in titles)), None)


@pytest.mark.parametrize("kept", [False, True])
def test_a_fetch_in_which_a_loader_starts_its_workers_anew_is_charged_to_that(tmp_path, kept):
    short = loader(8, num_workers=1, persistent_workers=kept)
    both = CombinedLoader({"short": short, "long": loader(40)}, "max_size_cycle")
    records = trained(tmp_path, both)

    columns = records[0].sessions[-1].columns
    starts = columns.get("part/data_wait/worker_startup")
    if kept:
        assert starts is None
        assert startup(records) is None
    else:
        # Two batches of the short loader, ten of the long one.
        assert torch.as_tensor(starts > 0).nonzero().flatten().tolist() == [2, 4, 6, 8]
        assert (starts <= columns["phase/data_wait"]).all()
        assert startup(records).change.startswith("DataLoader(..., persistent_workers=True)")
    phases = sum(column for name, column in columns.items() if name.startswith("phase/"))
    assert (phases == columns["dur_ns"]).all()
    assert MAKES_ITERATOR not in vars(short)


def test_each_of_several_validation_loaders_has_its_start_and_its_first_batch(tmp_path):
    several = [loader(4, num_workers=1) for _ in range(3)]
    records = trained(tmp_path, loader(16), several, val_check_interval=2)

    session = records[0].sessions[-1]
    described = session.start.validation_loader
    assert (described.loaders, described.length, described.num_workers) == (3, 3, 1)
    columns = session.columns
    validated = (columns["flags"] & StepFlag.VALIDATION) != 0
    start, first, later = (
        columns.get(f"part/validation/{part}", 0 * validated) for part in FETCHES
    )
    assert (FETCHES[1:]) == (FIRST_BATCH, NEXT_BATCHES)
    # There are no other batches: fetches beside the first find none.
    assert (start[validated] > 10 * later[validated]).all()
    assert (first[validated] > later[validated]).all()
    assert (start + first + later <= columns["phase/validation"]).all()
    finding = startup(records)
    assert finding.title.startswith("Starting 3 workers costs each validation ")
    assert "num_workers=0" in finding.change
    assert all(MAKES_ITERATOR not in vars(one) for one in several)


def test_a_loader_that_cannot_be_watched_is_trained_from_all_the_same(tmp_path):
    class Unhashable(DataLoader):
        __hash__ = None

    records = trained(tmp_path, Unhashable(RandomDataset(32, 16), batch_size=4, num_workers=1))
    session = records[0].sessions[-1]
    assert session.steps == 4
    assert session.end.status == "finished"
    assert not [one for one in session.records if type(one).__name__ == "ProbeDisabled"]
