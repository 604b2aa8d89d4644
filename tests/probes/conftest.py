import pytest
import torch


@pytest.fixture
def mesh():
    """Two ranks, of which this process is one and no other exists: nothing is communicated."""
    distributed = torch.distributed
    store = pytest.importorskip("torch.testing._internal.distributed.fake_pg").FakeStore()
    if distributed.is_initialized():  # by a Trainer: these keep theirs until the process ends
        distributed.destroy_process_group()
    distributed.init_process_group("fake", rank=0, world_size=2, store=store)
    yield distributed.device_mesh.init_device_mesh("cpu", (2,))
    distributed.destroy_process_group()
