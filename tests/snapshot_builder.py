"""Contents of allocator snapshots, made of plain numbers."""

import pickle
from pathlib import Path
from typing import Any


class SnapshotBuilder:
    """Makes the content of an allocator snapshot from allocations of known lines and phases."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.live: dict[int, tuple[int, list[dict[str, Any]]]] = {}
        self.note = ""
        self._next = 4096

    def held(self, size: int) -> int:
        """Take memory before the history begins."""
        address, self._next = self._next, self._next + size
        self.live[address] = (size, [])
        return address

    def allocate(
        self,
        size: int,
        line: int | None = None,
        function: str = "forward",
        caller: tuple[str, str] | None = None,
    ) -> int:
        frames = [{"filename": "/home/me/train.py", "line": line, "name": function}] if line else []
        if caller is not None:
            frames.append({"filename": caller[0], "line": 1, "name": caller[1]})
        address = self.held(size)
        self.live[address] = (size, frames)
        self._event("alloc", address, size, frames)
        return address

    def free(self, address: int) -> None:
        size, frames = self.live.pop(address)
        self._event("free_requested", address, size, frames)
        self._event("free_completed", address, size, frames)

    def content(self) -> dict[str, Any]:
        blocks = [
            {
                "address": address,
                "size": size,
                "requested_size": size,
                "state": "active_allocated",
                "frames": frames,
            }
            for address, (size, frames) in self.live.items()
        ]
        whole = sum(block["size"] for block in blocks)
        segment = {"device": 0, "address": 4096, "total_size": whole, "blocks": blocks}
        return {"segments": [segment], "device_traces": [self.events]}

    def dump(self, path: str) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(pickle.dumps(self.content()))

    def _event(self, action: str, address: int, size: int, frames: list[dict[str, Any]]) -> None:
        self.events.append(
            {
                "action": action,
                "addr": address,
                "size": size,
                "time_us": len(self.events),
                "frames": frames,
                "user_metadata": self.note,
            }
        )
