"""Write memory_snapshot_rank0.json: a memory snapshot, pickled, under a name that says JSON.

Reported in m2lines/Samudra pull request 480, "Memory snapshots are Pickle files, not JSON".

right: read by what is in it (or refused by a sentence that says it is a pickle): device 0 has
    reserved 256 MiB, of which 152 MiB are in use (104 MiB reserved but free); 128 MiB of that were
    allocated at model.py:61 (attention scores) and 24 MiB at model.py:18 (weights). The history has
    6 allocations, 4 frees and a peak of 216 MiB in use, when 64 MiB from loss.py:9 are alive too
"""

import pickle
from pathlib import Path

MIB = 1 << 20
WEIGHTS = {"filename": "/srv/train/model.py", "line": 18, "name": "__init__"}
SCORES = {"filename": "/srv/train/model.py", "line": 61, "name": "attend"}
LOSS = {"filename": "/srv/train/loss.py", "line": 9, "name": "logits"}
LOOP = {"filename": "/srv/train/run.py", "line": 33, "name": "main"}
FIRST, SECOND = 0x7F00_0000_0000, 0x7F00_4000_0000


def block(address, size, frame):
    state = "active_allocated" if frame else "inactive"
    frames = [frame, LOOP] if frame else []
    row = {"address": address, "size": size, "requested_size": size if frame else 0}
    return {**row, "state": state, "frames": frames}


def segment(address, size, blocks):
    used = sum(b["size"] for b in blocks if b["frames"])
    sizes = {"total_size": size, "allocated_size": used, "active_size": used}
    rest = {"requested_size": used, "stream": 0, "segment_type": "large", "is_expandable": False}
    where = {"device": 0, "address": address, "segment_pool_id": (0, 0), "frames": [LOOP]}
    return {**where, **sizes, **rest, "blocks": blocks}


def main():
    segments = [
        segment(FIRST, 192 * MIB, [block(FIRST, 128 * MIB, SCORES), block(FIRST + 128 * MIB, 64 * MIB, None)]),
        segment(SECOND, 64 * MIB, [block(SECOND, 24 * MIB, WEIGHTS), block(SECOND + 24 * MIB, 40 * MIB, None)]),
    ]
    rest = FIRST + 128 * MIB
    story = [
        ("segment_alloc", SECOND, 64 * MIB, LOOP),
        ("alloc", SECOND, 24 * MIB, WEIGHTS),
        ("segment_alloc", FIRST, 192 * MIB, LOOP),
    ]
    for _ in range(2):  # two steps; the third is under way
        story += [("alloc", FIRST, 128 * MIB, SCORES), ("alloc", rest, 64 * MIB, LOSS)]
        for address, size, frame in ((rest, 64 * MIB, LOSS), (FIRST, 128 * MIB, SCORES)):
            story += [("free_requested", address, size, frame), ("free_completed", address, size, frame)]
    story += [("alloc", FIRST, 128 * MIB, SCORES)]
    events = [
        {"action": action, "addr": address, "size": size, "stream": 0, "time_us": 1000 + 500 * n}
        | {"frames": [frame, LOOP]}
        for n, (action, address, size, frame) in enumerate(story)
    ]
    snapshot = {
        "segments": segments,
        "device_traces": [events],
        "allocator_settings": {"max_split_size": -1, "expandable_segments": False},
        "external_annotations": [],
    }
    path = Path("memory_snapshot_rank0.json")
    path.write_bytes(pickle.dumps(snapshot, protocol=4))


if __name__ == "__main__":
    main()
