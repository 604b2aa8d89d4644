import gc
import pickle
import pickletools
from types import SimpleNamespace

import pytest
import torch

from lightning_gpuprof.adapters.memory_history import CudaMemoryHistory, memory_history

SNAPSHOT = {"segments": [{"device": 0, "address": 1 << 40, "blocks": []}], "device_traces": [[]]}


class FakeTorch:
    """`torch.cuda` and `torch._C` as far as the history uses them."""

    def __init__(self):
        self.recorded = []
        self.observers = []
        self.memory = SimpleNamespace(
            _record_memory_history=lambda enabled, **options: self.recorded.append(
                (enabled, options)
            ),
            _snapshot=lambda: SNAPSHOT,
            _dump_snapshot=self.dump,
        )

    def dump(self, path):
        """As torch does it under Python 3.14, whose default protocol is 5."""
        with open(path, "wb") as file:
            pickle.dump(SNAPSHOT, file, protocol=5)

    def _cuda_attach_out_of_memory_observer(self, observer):
        self.observers.append(observer)


class Listener:
    def __init__(self):
        self.heard = []

    def on_oom(self, *said):
        self.heard.append(said)


@pytest.mark.parametrize(
    ("backend", "kept"), [("native", True), ("cudaMallocAsync", False), ("pluggable", False)]
)
def test_only_torchs_own_allocator_keeps_a_history(backend, kept):
    fake = FakeTorch()
    fake.memory.get_allocator_backend = lambda: backend
    assert (memory_history(torch.device("cuda", 0), cuda=fake) is not None) is kept


def test_only_python_stacks_and_a_bounded_history_are_asked_for():
    fake = FakeTorch()
    history = CudaMemoryHistory(cuda=fake, c=fake)
    history.start(1000)
    history.stop()
    assert fake.recorded == [
        ("all", {"context": "alloc", "stacks": "python", "max_entries": 1000}),
        (None, {}),
    ]


def test_a_dump_is_of_a_protocol_that_the_viewer_reads_whatever_pythons_default_is(tmp_path):
    fake, path = FakeTorch(), tmp_path / "plugins" / "snapshot.pickle"
    CudaMemoryHistory(cuda=fake, c=fake).dump(str(path))
    assert [found.name for found in path.parent.iterdir()] == ["snapshot.pickle"]
    written = path.read_bytes()
    assert max(opcode.proto for opcode, _, _ in pickletools.genops(written)) <= 4
    assert written[:2] == b"\x80\x04"
    assert pickle.loads(written) == SNAPSHOT


def test_one_observer_serves_every_listener_that_is_still_there():
    fake = FakeTorch()
    history = CudaMemoryHistory(cuda=fake, c=fake)
    first, second = Listener(), Listener()
    assert history.listen_for_oom(first.on_oom)
    assert history.listen_for_oom(second.on_oom)
    del first
    gc.collect()
    (observer,) = fake.observers
    observer(0, 1, 2, 3)
    assert second.heard == [(0, 1, 2, 3)]
