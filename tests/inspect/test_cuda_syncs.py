"""The sync debug mode of torch on a device that is a fake: a warning per sync."""

import threading
import warnings

import pytest
import torch
from inspected import inspected
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset
from torch.utils.data import DataLoader

from lightning_gpuprof.inspect.cuda_syncs import CudaSyncDetector


class Device:
    """Stands for torch.cuda: a debug mode, and a warning per sync while it is on."""

    def __init__(self, mode=0):
        self.mode = mode
        self.warned = False

    def get_sync_debug_mode(self):
        return self.mode

    def set_sync_debug_mode(self, mode):
        if not self.warned:  # as torch does, once
            self.warned = True
            warnings.warn("Synchronization debug mode is a prototype feature", stacklevel=1)
        self.mode = {"default": 0, "warn": 1, "error": 2}.get(mode, mode)


# As if it were torch's own code: frames of generated code are passed over.
_ITEM = """
def item(tensor):
    if device.mode == 1:
        warnings.warn("called a synchronizing CUDA operation (Triggered internally)")
    return original(tensor)
"""


@pytest.fixture
def on_cuda(monkeypatch):
    """A watch of a device that syncs in `.item()`, each call taking 7 ns."""
    device = Device()
    names = {"device": device, "warnings": warnings, "original": torch.Tensor.item}
    exec(compile(_ITEM, "<torch>", "exec"), names)
    monkeypatch.setattr(torch.Tensor, "item", names["item"])
    ticks = iter(range(0, 10**6, 7))

    def new_detector(trainer, report, fetching):
        return CudaSyncDetector(report, clock=lambda: next(ticks), device=device)

    with warnings.catch_warnings():
        yield device, new_detector


class Reading(BoringModel):
    def training_step(self, batch, batch_idx):
        out = super().training_step(batch, batch_idx)
        other = threading.Thread(target=out["loss"].detach().item)
        other.start()
        other.join()
        for _ in range(2):
            out["loss"].item()
        return out


def test_torchs_warnings_become_rows_with_the_time_they_took(tmp_path, on_cuda):
    device, new_detector = on_cuda
    shown = warnings.showwarning
    [site] = inspected(tmp_path, Reading(), new_detector=new_detector).sites
    assert site.source == 'out["loss"].item()'
    assert (site.operation, site.owner, site.count) == ("item", "user", 6)
    # The clock is asked four times a read, twice for what reporting it takes: no part of it.
    assert site.blocked_ns == 6 * (3 * 7 - 7)
    assert not site.would_sync
    assert device.mode == 0
    assert warnings.showwarning is shown


def test_a_wait_that_torch_warns_of_as_well_counts_once(tmp_path, on_cuda, monkeypatch):
    def synchronize(device=None):  # as one of a stream does
        if on_cuda[0].mode == 1:
            warnings.warn("called a synchronizing CUDA operation", stacklevel=1)

    monkeypatch.setattr(torch.cpu, "synchronize", synchronize)

    class Waiting(BoringModel):
        def training_step(self, batch, batch_idx):
            torch.cpu.synchronize()
            return super().training_step(batch, batch_idx)

    found = inspected(tmp_path, Waiting(), new_detector=on_cuda[1]).sites
    assert [(site.operation, site.count) for site in found] == [("synchronize", 3)]


def test_torchs_word_of_a_prototype_is_kept_from_the_user(on_cuda):
    watch = on_cuda[1](None, lambda operation: None, None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert watch.start()
        watch.stop()


def test_a_read_while_a_batch_is_fetched_is_the_loaders(tmp_path, on_cuda):
    class Rows(RandomDataset):
        def __getitem__(self, index):
            row = super().__getitem__(index)
            return row * row.sum().item()

    class Model(BoringModel):
        def train_dataloader(self):
            return DataLoader(Rows(32, 64), batch_size=2)

    [site] = inspected(tmp_path, Model(), new_detector=on_cuda[1]).sites
    assert site.source == "return row * row.sum().item()"
    assert (site.owner, site.phase, site.count) == ("dataloader", "data_wait", 6)


def test_where_each_sync_raises_nothing_is_watched_and_the_setting_stays(tmp_path, on_cuda):
    device, new_detector = on_cuda
    device.mode = 2
    found = inspected(tmp_path, BoringModel(), new_detector=new_detector)
    assert device.mode == 2
    assert found.syncs_raise
    assert (found.sync_steps, found.sites, found.work_steps) == (0, (), 3)
