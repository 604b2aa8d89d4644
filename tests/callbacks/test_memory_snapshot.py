import json
from pathlib import Path

import pytest
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.loggers import CSVLogger

from lightning_gpuprof.analysis.memory.memory_dump import analyze_snapshot_file
from lightning_gpuprof.callbacks.memory_snapshot import MemorySnapshot
from lightning_gpuprof.records.files import plugin_dir
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import Note, Snapshot


class FakeHistory:
    """An allocator's history that writes what the test has put into a snapshot."""

    def __init__(self, snapshot):
        self.snapshot = snapshot
        self.calls = []
        self.notes = []
        self.listener = None

    def start(self, max_entries):
        self.calls.append("start")

    def stop(self):
        self.calls.append("stop")

    def note(self, text):
        self.notes.append(text)

    def dump(self, path):
        self.calls.append("dump")
        self.snapshot.dump(path)

    def listen_for_oom(self, listener):
        self.listener = listener
        return True


@pytest.fixture
def history(allocator_snapshot):
    return FakeHistory(allocator_snapshot)


def trained(tmp_path, callback, model=None, *, steps=8, fails=None, version=None):
    trainer = Trainer(
        callbacks=[callback],
        logger=CSVLogger(tmp_path, version=version),
        max_steps=steps,
        limit_val_batches=0,
    )
    if fails is None:
        trainer.fit(model or BoringModel())
    else:
        with pytest.raises(fails):
            trainer.fit(model)
    return trainer.logger.log_dir


def snapshots(run):
    return read_run(run)[0].sessions[0].all(Snapshot)


def test_a_window_is_recorded_and_written_at_its_end(tmp_path, history):
    callback = MemorySnapshot(steps=(2, 4), on_oom=False, history=lambda device: history)
    run = trained(tmp_path, callback)
    (snapshot,) = snapshots(run)
    assert (snapshot.step, snapshot.reason) == (4, "window")
    assert history.calls == ["start", "dump", "stop"]
    assert history.notes[:4] == ["forward", "backward", "optimizer_step", "between"]
    assert len(history.notes) == 8
    assert analyze_snapshot_file(f"{plugin_dir(run)}/{snapshot.file}").file == snapshot.file


def test_addresses_of_the_model_are_written_beside_the_snapshot(tmp_path, history):
    model = BoringModel()
    run = trained(tmp_path, MemorySnapshot(steps=(0, 1), history=lambda device: history), model)
    (path,) = Path(plugin_dir(run)).glob("*.kinds.json")
    kinds = json.loads(path.read_text())
    assert model.layer.weight.data_ptr() in kinds["parameters"]
    assert len(kinds["gradients"]) == 2
    assert kinds["optimizer_state"] == []


def test_only_the_newest_are_kept(tmp_path, history):
    for first in range(3):
        callback = MemorySnapshot(steps=(first, first + 1), keep=2, history=lambda device: history)
        run = trained(tmp_path, callback, version=0)
    names = sorted(path.name for path in Path(plugin_dir(run)).glob("*.memory.*"))
    assert len(names) == 4
    assert [name.split("-")[-2] for name in names[::2]] == ["step2", "step3"]


class Fails(BoringModel):
    """Allocations fail in some steps; after step `dies` an error ends training."""

    def __init__(self, history, *, steps=(), dies=None, error=None):
        super().__init__()
        self.history, self.steps, self.dies, self.error = history, steps, dies, error

    def training_step(self, batch, batch_idx):
        if batch_idx in self.steps:
            self.history.listener(0, 3 * 2**20, 1000, 100)
            self.history.listener(0, 2**20, 1000, 100)
        loss = super().training_step(batch, batch_idx)
        if batch_idx == self.dies:
            raise self.error
        return loss


OOM = torch.OutOfMemoryError("CUDA out of memory")
NO_ENGINE = RuntimeError("GET was unable to find an engine to execute this computation")
DUMPED = {"requested_bytes": 3 * 2**20, "device_total_bytes": 1000, "device_free_bytes": 100}


@pytest.mark.parametrize(
    ("steps", "dies", "error", "dumps", "oom"),
    [
        ([2], 2, OOM, 1, DUMPED),
        ([], 2, OOM, 1, {}),  # no observer saw it
        ([2], 2, NO_ENGINE, 1, DUMPED),  # a library's words for a failed allocation
        ([0, 1], 2, OOM, 3, {}),  # after some that were caught
        ([0, 1, 2, 3, 4], 5, OOM, 5, {}),  # after four no more are dumped until one ends training
    ],
)
def test_an_oom_that_ends_training_writes_a_snapshot(
    tmp_path, history, steps, dies, error, dumps, oom
):
    model = Fails(history, steps=steps, dies=dies, error=error)
    callback = MemorySnapshot(history=lambda device: history)
    run = trained(tmp_path, callback, model, fails=type(error))
    (snapshot,) = snapshots(run)
    assert (snapshot.step, snapshot.reason, snapshot.oom) == (dies, "oom", oom)
    assert history.calls == ["start", *["dump"] * dumps, "stop"]


def test_a_failed_allocation_that_was_caught_leaves_no_snapshot(tmp_path, history):
    callback = MemorySnapshot(keep=1, history=lambda device: history)
    run = trained(tmp_path, callback, Fails(history, steps=[2]))
    assert history.calls == ["start", "dump", "stop"]
    assert snapshots(run) == []
    assert list(Path(plugin_dir(run)).glob("*oom*")) == []


@pytest.mark.parametrize(
    ("steps", "dies", "error"),
    [
        (range(4), 5, RuntimeError("shapes cannot be multiplied")),
        ([2], 2, SystemExit()),  # as SIGTERM, after one that was caught
        ([], 2, ValueError()),
    ],
)
def test_another_end_of_training_writes_no_snapshot(tmp_path, history, steps, dies, error):
    model = Fails(history, steps=steps, dies=dies, error=error)
    callback = MemorySnapshot(history=lambda device: history)
    run = trained(tmp_path, callback, model, fails=type(error))
    assert snapshots(run) == []
    assert list(Path(plugin_dir(run)).glob("*oom*")) == []
    assert history.calls[-1] == "stop"


def test_a_dump_that_fails_ends_the_history_and_training_goes_on(tmp_path, history, said):
    def fail(path):
        raise OSError("disk full")

    history.dump = fail
    callback = MemorySnapshot(steps=(1, 2), history=lambda device: history)
    with said("MemorySnapshot failed and is off"):
        run = trained(tmp_path, callback)
    assert snapshots(run) == []
    assert history.calls == ["start", "stop"]
    assert read_run(run)[0].sessions[0].end.status == "finished"


def test_on_a_cpu_nothing_is_recorded_and_that_is_said(tmp_path):
    run = trained(tmp_path, MemorySnapshot(steps=(1, 2)))
    notes = read_run(run)[0].sessions[0].all(Note)
    assert "memory-snapshot-not-measured" in {note.name for note in notes}
    assert list(Path(plugin_dir(run)).glob("*.pickle")) == []
