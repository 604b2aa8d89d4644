"""Lightning makes a tensor of each number that is logged, on the device, by a copy that waits."""

import pytest
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel
from torch import full

from lightning_gpuprof.callbacks.sync_detector import SyncDetector
from lightning_gpuprof.findings.sync_cures import cure


def rows(folder, logs, **options):
    """Return the detector's rows of three steps of a fit that logs so in each."""

    class Model(BoringModel):
        def training_step(self, batch, batch_idx):
            logs(self)
            return super().training_step(batch, batch_idx)

    found = []
    trainer = Trainer(
        max_epochs=1,
        limit_train_batches=8,
        limit_val_batches=0,
        logger=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        default_root_dir=folder,
        callbacks=[SyncDetector(start=2, steps=3, on_sites=lambda sites, _: found.extend(sites))],
        **{"enable_progress_bar": False} | options,
    )
    trainer.fit(Model())
    return found


@pytest.mark.parametrize("number", [0.5, 3, True], ids=str)
def test_each_number_would_wait_at_the_line_that_logs_it(tmp_path, number):
    def logs(module):
        module.log("rate", number)

    [site] = rows(tmp_path, logs)
    assert (site.owner, site.operation, site.count) == ("lightning", "pageable copy", 3)
    assert site.source == 'module.log("rate", number)'
    assert site.would_sync
    assert "torch.full" in cure(site)
    assert "DeferredLoss" not in cure(site), "no loss is read"


def test_several_numbers_at_a_line_are_counted_one_by_one(tmp_path):
    def logs(module):
        module.log_dict({"rate": 0.5, "scale": 2.0})

    [site] = rows(tmp_path, logs)
    assert site.count == 6


def test_one_that_the_progress_bar_reads_again_has_both_cures(tmp_path):
    def logs(module):
        module.log("rate", 0.5, prog_bar=True)

    [site] = rows(tmp_path, logs, enable_progress_bar=True)
    assert sorted(site.operation.split(", ")) == ["item", "pageable copy"]
    assert "torch.full" in cure(site)
    assert "DeferredProgressBar" in cure(site)


def test_one_that_the_device_made_itself_waits_for_nothing(tmp_path):
    def logs(module):
        module.log("rate", full((), 0.5, device=module.device))

    assert rows(tmp_path, logs) == []
