"""Two processes over gloo on the CPU: one run for all that differs between ranks."""

import csv
from pathlib import Path

import pytest
from rank_processes import run_script

from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import ProfilerCycle, Scalars

SCRIPT = """
import sys
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.loggers import CSVLogger
from lightning_gpuprof.callbacks.deferred_loss import DeferredLoss
from lightning_gpuprof.callbacks.profiler_schedule import ProfilerSchedule

class Model(BoringModel):
    def training_step(self, batch, batch_idx):
        outputs = super().training_step(batch, batch_idx)
        rank = torch.tensor(float(self.global_rank))
        odd = rank + 2 if rank or batch_idx % 2 else None
        return {"loss": outputs["loss"], "rank": rank + batch_idx, "own": rank, "odd": odd}

if __name__ == "__main__":
    trainer = Trainer(
        accelerator="cpu", devices=2, strategy="ddp_fork", max_epochs=1, limit_train_batches=7,
        limit_val_batches=0, enable_progress_bar=False, enable_checkpointing=False,
        enable_model_summary=False, logger=CSVLogger(sys.argv[1], version=0),
        callbacks=[
            DeferredLoss(("rank", "odd"), window=3, sync_dist=True),
            DeferredLoss(("own",), window=3),
            ProfilerSchedule(wait=1, warmup=1, active=2, ranks=None),
        ],
    )
    trainer.fit(Model())
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ddp")
    script = folder / "train.py"
    script.write_text(SCRIPT)
    run_script(script, folder, timeout_s=180)
    return folder / "lightning_logs" / "version_0"


def recorded(run, rank, name):
    records = read_run(str(run))[rank].sessions[0].all(Scalars)
    return [v for record in records for v in record.values.get(name, ())]


def test_values_are_averaged_over_ranks_where_asked_and_each_ranks_own_else(run):
    expected = [0.5 + step for step in range(7)]
    assert recorded(run, 0, "rank") == recorded(run, 1, "rank") == expected
    assert recorded(run, 0, "own") == [0.0] * 7
    assert recorded(run, 1, "own") == [1.0] * 7
    with open(Path(run) / "metrics.csv", newline="") as file:
        logged = {int(r["step"]): float(r["rank"]) for r in csv.DictReader(file) if r["rank"]}
    assert logged == dict(enumerate(expected))


def test_a_mean_is_of_the_ranks_that_gave_a_value(run):
    expected = [3.0, 2.5, 3.0, 2.5, 3.0, 2.5, 3.0]
    assert recorded(run, 0, "odd") == recorded(run, 1, "odd") == expected


def test_each_rank_writes_its_own_trace(run):
    for rank in (0, 1):
        [cycle] = read_run(str(run))[rank].sessions[0].all(ProfilerCycle)
        assert cycle.trace_file == f"rank{rank}-cycle0.pt.trace.json.gz"
        assert (cycle.first_step, cycle.last_step) == (2, 3)
        folder = run / "plugins" / "gpuprof"
        assert (folder / cycle.trace_file).exists()
