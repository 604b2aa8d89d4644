"""Snapshots of an H100's allocator, against sums over the pickles."""

import json
import pickle

import pytest

from lightning_gpuprof.analysis.memory.memory_dump import analyze_snapshot_file
from lightning_gpuprof.analysis.memory.memory_snapshot import KINDS
from lightning_gpuprof.records.files import KINDS_SUFFIX
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import Snapshot

LEAK = ("/home/repo/tests/gpu/test_promises_on_gpu.py", 54)
LEAKED_BYTES = 2**20 * 4
"""What the line allocates and keeps, in each step."""


def snapshot_of(run):
    """Return the record and the path of a run's snapshot, and what we say of its one device."""
    [record] = read_run(str(run))[0].sessions[0].all(Snapshot)
    path = run / "plugins" / "gpuprof" / record.file
    [device] = analyze_snapshot_file(str(path)).devices
    return record, path, device


@pytest.fixture(params=["leak", "out-of-memory"])
def snapshot(request, h100):
    """The path of a snapshot, what is in it, and what we say of its one device."""
    _, path, device = snapshot_of(h100 / request.param)
    # Our own recording, and plain data: the reader's own tests have a pickle that is neither.
    return path, pickle.loads(path.read_bytes()), device


def in_use(raw):
    """Follow the history back from its end; returns bytes in use before it and after each event."""
    blocks = [block for segment in raw["segments"] for block in segment["blocks"]]
    now = sum(b["requested_size"] for b in blocks if b["state"] == "active_allocated")
    found = [now]
    for event in reversed(raw["device_traces"][0]):
        if event["action"] in ("alloc", "free_completed"):
            now += event["size"] if event["action"] == "free_completed" else -event["size"]
        found.append(now)
    return found[::-1]


def test_bytes_are_those_of_the_pickle(snapshot):
    _, raw, device = snapshot
    used = in_use(raw)
    assert device.reserved_bytes == sum(one["total_size"] for one in raw["segments"])
    assert device.before_bytes == used[0]
    assert device.allocated_bytes == used[-1]
    assert device.peak.allocated_bytes == max(used)
    assert sum(device.kind_bytes.values()) == used[-1]
    assert sum(device.peak.kind_bytes.values()) == max(used)


def test_parameters_and_gradients_are_the_blocks_that_the_run_named(snapshot):
    path, raw, device = snapshot
    named = json.loads(path.with_name(path.name + KINDS_SUFFIX).read_text())
    blocks = {b["address"]: b for segment in raw["segments"] for b in segment["blocks"]}
    for kind in ("parameters", "gradients"):
        expected = sum(blocks[address]["requested_size"] for address in named[kind])
        assert device.kind_bytes[kind] == expected > 0
    assert set(device.kind_bytes) == set(KINDS)


def test_the_leaks_line_has_what_it_kept(h100):
    _, path, device = snapshot_of(h100 / "leak")
    raw = pickle.loads(path.read_bytes())
    kept = [
        block
        for segment in raw["segments"]
        for block in segment["blocks"]
        if block["state"] == "active_allocated"
        and LEAK in [(frame["filename"], frame["line"]) for frame in block["frames"]]
    ]
    assert len(kept) >= 50
    for site in (device.peak.sites[0], device.growing[0]):
        assert (site.file, site.line) == LEAK
        assert (site.count, site.bytes) == (len(kept), len(kept) * LEAKED_BYTES)
    assert device.growing[0].bytes_per_step == pytest.approx(LEAKED_BYTES, rel=0.03)


def test_an_allocation_that_failed_is_told(h100):
    record, _, device = snapshot_of(h100 / "out-of-memory")
    assert (record.reason, record.step) == ("oom", 5)
    assert record.oom["requested_bytes"] == 2**42
    assert device.oom_count == 1
