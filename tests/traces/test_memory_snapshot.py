import os
import pickle
from pathlib import Path

import pytest

from lightning_gpuprof.errors import TraceError
from lightning_gpuprof.traces.memory_snapshot import Frame, matches, read_snapshot, user_frame
from lightning_gpuprof.traces.sniff import read_head

CASES = Path(__file__).parents[1] / "data" / "cases"


def test_a_snapshot_gives_bytes_by_state_and_the_lines(tiny_traces):
    snapshot = read_snapshot(str(tiny_traces / "memory_snapshot.pickle"))

    assert snapshot.devices == [0]
    assert snapshot.reserved_bytes(0) == 2048
    first, second = (user_frame(block.frames) for block in snapshot.segments[0].blocks[:2])
    assert (first, second) == (Frame("/home/me/model.py", 12, "forward"), None)
    assert [event.action for event in snapshot.events] == ["alloc", "oom"]


class Exploit:
    def __reduce__(self):
        return os.system, ("echo harm",)


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_a_pickle_that_could_run_code_is_refused(write_text, protocol):
    path = write_text(pickle.dumps({"segments": [Exploit()]}, protocol=protocol))

    with pytest.raises(TraceError, match="could run code"):
        read_snapshot(path)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.95])
def test_a_pickle_that_ends_early_says_so(tiny_traces, write_text, share):
    data = (tiny_traces / "memory_snapshot.pickle").read_bytes()
    path = write_text(data[: int(len(data) * share)])

    with pytest.raises(TraceError, match="ends early"):
        read_snapshot(path)


def test_another_pickle_is_no_snapshot(write_text):
    path = write_text(pickle.dumps({"a": 1}))

    assert not matches(read_head(path))
    with pytest.raises(TraceError, match="not a memory snapshot"):
        read_snapshot(path)


@pytest.mark.parametrize("name", ["06f51ae4__memory_snapshot.pickle", "output.pickle"])
def test_real_snapshots_are_what_plain_sums_give(shared_traces, name):
    path = shared_traces / "memory" / name
    # Plain data only: test_a_pickle_that_could_run_code_is_refused guards the reader itself.
    snapshot = read_snapshot(str(path))
    raw = pickle.loads(path.read_bytes())

    assert matches(read_head(str(path)))
    assert snapshot.reserved_bytes(0) == sum(s["total_size"] for s in raw["segments"])
    read = [block.num_bytes for segment in snapshot.segments for block in segment.blocks]
    assert read == [block["size"] for segment in raw["segments"] for block in segment["blocks"]]
    assert len(snapshot.events) == sum(map(len, raw["device_traces"]))


def test_what_the_program_noted_beside_an_allocation_is_kept(write_text):
    events = [
        {"action": "alloc", "addr": 1, "size": 8, "user_metadata": "encoder"},
        {"action": "free_completed", "addr": 1, "size": 8},
    ]
    path = write_text(pickle.dumps({"segments": [], "device_traces": [events]}))

    assert [event.note for event in read_snapshot(path).events] == ["encoder", ""]


def test_a_bare_list_of_segments_is_read_without_a_history():
    """`torch.cuda.memory_snapshot()` returns such a list, which people pickle themselves."""
    path = str(CASES / "48b_snapshot_bare_list.pickle")
    snapshot = read_snapshot(path)
    used = sum(
        block.num_bytes
        for segment in snapshot.segments
        for block in segment.blocks
        if block.state == "active_allocated"
    )
    assert matches(read_head(path))
    assert (used, snapshot.reserved_bytes(0)) == (96 << 20, 160 << 20)
    assert snapshot.events == ()
    assert "torch.cuda.memory_snapshot() holds no history" in snapshot.warnings[0]


def test_a_list_of_something_else_is_no_snapshot(write_text):
    path = write_text(pickle.dumps([{"total_size": 1, "segment_type": "large"}, 5]))

    assert matches(read_head(path))
    with pytest.raises(TraceError, match="Record it again"):
        read_snapshot(path)
