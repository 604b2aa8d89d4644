"""Write last_entries.pickle: a memory snapshot that has only the last 60 entries of its history.

report: pytorch/pytorch issue 129674, "max_entries parameter of _record_memory_history()" ("will it keep
    the first 2000 entries and then stop recording or will it keep the most recent 2000?": it is a
    ring), and pull request 155889, which answers it
cause: every step keeps its 96 MiB of attention maps (probe.py:27, a list of a hook), so that memory
    grows step by step; weights, optimizer and the first steps are older than the history
right: at the end 4864 MiB are in use of 5376 MiB reserved: 1920 MiB of maps (20 of 96 MiB, probe.py:27 in
    watch), 1472 MiB of optimizer (adam.py:88), 736 MiB of weights (net.py:14, __init__) and 736 MiB of
    gradients (net.py:14, backward). The history is incomplete: 60 entries, the last 4 steps, the first
    of which is cut: 4 blocks (256 MiB) are freed whose allocation it lacks. Each step adds 96 MiB
    that are not freed. 4736 MiB were in use before it began, so that the peak is 5120 MiB (in the
    last step, 256 MiB of net.py:40 or loss.py:9 over the rest), not the 640 MiB or less that the
    history adds up to from nothing. The change: keep no maps on the GPU (cpu, or a mean), and to
    see the beginning, a larger max_entries
"""

import pickle
from pathlib import Path

MIB = 1 << 20
MAIN = {"filename": "/srv/run/train.py", "line": 52, "name": "main"}
WEIGHTS = {"filename": "/srv/run/net.py", "line": 14, "name": "__init__"}
GRADIENTS = {"filename": "/srv/run/net.py", "line": 14, "name": "backward"}
MOMENTS = {"filename": "/srv/run/adam.py", "line": 88, "name": "_init_group"}
MAPS = {"filename": "/srv/run/probe.py", "line": 27, "name": "watch"}
LOGITS = {"filename": "/srv/run/loss.py", "line": 9, "name": "logits"}
HIDDEN = {"filename": "/srv/run/net.py", "line": 40, "name": "forward"}
ENTRIES, STEPS = 60, 20


class Allocator:
    """Blocks one after another in one segment; the history as a ring."""

    def __init__(self):
        self.top, self.live, self.free, self.history, self.time = 0x7E00_0000_0000, {}, {}, [], 0

    def note(self, action, address, size, frame):
        self.time += 137
        row = {"action": action, "addr": address, "size": size, "stream": 0, "time_us": self.time}
        self.history = [*self.history, {**row, "frames": [frame, MAIN]}][-ENTRIES:]

    def alloc(self, mib, frame):
        fits = [address for address, size in self.free.items() if size == mib]
        if fits:
            address = fits[0]
            del self.free[address]
        else:
            address, self.top = self.top, self.top + mib * MIB
        self.live[address] = (mib, frame)
        self.note("alloc", address, mib * MIB, frame)
        return address

    def release(self, address):
        mib, frame = self.live.pop(address)
        self.free[address] = mib
        self.note("free_requested", address, mib * MIB, frame)
        self.note("free_completed", address, mib * MIB, frame)


def main():
    memory = Allocator()
    first = memory.top
    for frame, count in ((WEIGHTS, 23), (GRADIENTS, 23), (MOMENTS, 46)):
        for _ in range(count):
            memory.alloc(32, frame)
    for _ in range(STEPS):
        hidden = [memory.alloc(size, HIDDEN) for size in (40, 48, 56, 112)]
        memory.alloc(96, MAPS)
        for address in reversed(hidden):
            memory.release(address)
        logits = memory.alloc(256, LOGITS)
        memory.release(logits)
    blocks = []
    for address in sorted([*memory.live, *memory.free]):
        mib, frame = memory.live.get(address, (memory.free.get(address), None))
        row = {"address": address, "size": mib * MIB, "requested_size": mib * MIB if frame else 0}
        row["state"] = "active_allocated" if frame else "inactive"
        blocks.append({**row, "frames": [frame, MAIN] if frame else []})
    used = sum(block["size"] for block in blocks if block["frames"])
    segment = {
        "device": 0,
        "address": first,
        "total_size": memory.top - first,
        "allocated_size": used,
        "active_size": used,
        "requested_size": used,
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": True,
        "frames": [MAIN],
        "blocks": blocks,
    }
    settings = {"expandable_segments": True, "max_split_size": -1}
    snapshot = {"segments": [segment], "device_traces": [memory.history]}
    snapshot |= {"allocator_settings": settings, "external_annotations": []}
    Path("last_entries.pickle").write_bytes(pickle.dumps(snapshot))


if __name__ == "__main__":
    main()
