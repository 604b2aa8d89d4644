"""Splits a trace's JSON into short lists of whole events, without parsing it as a whole.

A border between two events looks like `}, {`, and so may a place inside an event. A piece
that ends at such a place parses as a list only if the place is a border: otherwise brackets or
quotes would be left open. The last candidate of a piece is tried first. If no candidate parses, the
piece is decoded event by event, which also shows which event is faulty.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import msgspec

from lightning_gpuprof.errors import TraceError
from lightning_gpuprof.traces.kineto.salvage import BORDER, repaired, walk

PIECE_BYTES = 1 << 20
"""Small enough for a piece and its events to stay in a core's cache."""
_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""Windows puts it before UTF-8 text."""
_BARE_LIST = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[")
_ARRAY_END = re.compile(r"trailing characters \(byte (\d+)\)")
_WINDOWS = (1 << 13, 1 << 17, PIECE_BYTES)
"""How far before the end of a piece a border is looked for, shortest first."""
_TRIES = 4
"""Candidates that are tried before a piece is decoded event by event."""
_LONGEST_TAIL = 1 << 26
"""The most bytes of one event, and of the values before or after the list."""
_OPEN, _CLOSE = ord("["), ord("]")
_REFUSED = (msgspec.DecodeError, ValueError, OverflowError, RecursionError)
"""Errors of a strict parser over text that may still hold whole events."""
T = TypeVar("T")
Decode = Callable[[memoryview | bytes | msgspec.Raw], list[T]]


class EventStream(Generic[T]):
    """The events of one file, list by list, and in `header` the top-level values around them.

    `decode_event` is called with single events that `decode` could not read, `warn` with a sentence
    about anything that was lost.
    """

    def __init__(
        self,
        blocks: Iterator[bytes],
        decode: Decode[T],
        decode_event: Callable[[bytes], T | None],
        warn: Callable[[str], None],
    ) -> None:
        self.header: dict[str, Any] = {}
        self._blocks = blocks
        self._decode = decode
        self._decode_event = decode_event
        self._warn = warn
        self._buffer = bytearray()
        self._at = 0  # index of a byte before the next event that may be overwritten with [
        self._bare = False
        self._ended = False
        self._lost = 0

    def __iter__(self) -> Iterator[list[T]]:
        """Yield lists of events in the file's order."""
        self._start()
        block: bytes | None = b""
        while block is not None and not self._ended:
            self._buffer = self._buffer[self._at :]
            self._buffer += block
            self._at = 0
            while not self._ended and (left := len(self._buffer) - self._at) > PIECE_BYTES:
                events = self._next_piece()
                if events is None:
                    if left > _LONGEST_TAIL:
                        raise TraceError(
                            f"An event is longer than {_LONGEST_TAIL >> 20} MiB: the file is "
                            "damaged. Record it again."
                        )
                    break
                yield events
                if not events and len(self._buffer) - self._at >= left:
                    break  # the end of the next event may be in the next block
            block = next(self._blocks, None)
        if not self._ended:
            yield from self._finish()
        self._keep_tail(block)
        if self._lost:
            self._warn(f"{self._lost} events could not be read and were skipped.")

    def _start(self) -> None:
        """Read up to the first event; the values before it go to `header`."""
        for block in self._blocks:
            # The key may lie across two blocks; what was searched is not searched again.
            start = max(0, len(self._buffer) - 64)
            self._buffer += block
            match = _BARE_LIST.match(self._buffer) if start == 0 else None
            self._bare = match is not None
            match = match or _EVENTS_KEY.search(self._buffer, start)
            if match:
                before = (
                    bytes(self._buffer[: match.start()]).removeprefix(_BYTE_ORDER_MARK).rstrip()
                )
                self._keep_header(before.removesuffix(b",") + b"}")
                self._at = match.end() - 1
                return
            if len(self._buffer) > _LONGEST_TAIL:
                break
        raise TraceError(
            "The file holds no `traceEvents`: it ends before its first event, or is not a trace. "
            "Give the file as torch.profiler exported it."
        )

    def _next_piece(self) -> list[T] | None:
        """Return the next events; None where the buffer holds no border."""
        end = min(len(self._buffer), self._at + PIECE_BYTES)
        tries = 0
        for window in _WINDOWS:
            start = max(self._at, end - window)
            for border in reversed(list(BORDER.finditer(self._buffer, start, end))):
                if (events := self._parse(border.start(1))) is not None:
                    return events
                tries += 1
                if tries == _TRIES:
                    return self._walk(PIECE_BYTES)
            if tries:
                return self._walk(PIECE_BYTES)
        border_after = BORDER.search(self._buffer, end)
        if border_after is None:
            return None
        events = self._parse(border_after.start(1))
        return self._walk(PIECE_BYTES) if events is None else events

    def _parse(self, cut: int) -> list[T] | None:
        """Parse up to the comma at `cut`; None where it is no border or an event is faulty."""
        buffer, at = self._buffer, self._at
        comma, buffer[at], buffer[cut] = buffer[cut], _OPEN, _CLOSE
        text = memoryview(buffer)[at : cut + 1]
        try:
            events = self._decode(text)
        except _REFUSED as error:
            buffer[cut] = comma
            if end := _ARRAY_END.search(str(error)):
                return self._end_at(at + int(end[1]) - 1)  # the error counts from 1
            return None
        self._at = cut
        return events

    def _end_at(self, end: int) -> list[T] | None:
        """Parse the last events, up to where the list ends; None if an event is faulty."""
        try:
            events = self._decode(memoryview(self._buffer)[self._at : end])
        except _REFUSED:
            return None
        self._at, self._ended = end, True
        return events

    def _finish(self) -> Iterator[list[T]]:
        """Parse the rest of the buffer after the last block."""
        self._buffer[self._at] = _OPEN
        text = bytes(memoryview(self._buffer)[self._at :])
        try:
            # As an object again, with the list under a name that no file uses, so that one pass
            # reads the values after the events too.
            rest = msgspec.json.decode(
                b'{"":%b%b' % (text, b"}" if self._bare else b""), type=dict[str, msgspec.Raw]
            )
            events = self._decode(rest.pop(""))
            self.header.update((key, msgspec.json.decode(raw)) for key, raw in rest.items())
            self._at, self._ended = len(self._buffer), True
            yield events
        except _REFUSED:
            yield self._walk(0)
        if not self._ended:
            self._warn("The file ends inside its list of events: the last ones were lost.")
            self._at = len(self._buffer)

    def _walk(self, patience: int) -> list[T]:
        """Go through the buffer event by event; skip those that cannot be read."""
        text = repaired(bytes(self._buffer[self._at + 1 :]))
        walked = walk(text, patience)
        self._ended = walked.ended
        self._lost += walked.lost
        events = []
        if walked.spans:
            try:
                whole = b"[" + text[walked.spans[0][0] : walked.spans[-1][1]] + b"]"
                events = self._decode(whole)
            except _REFUSED:
                events = list(self._one_by_one(text, walked.spans))
        left = text[walked.rest :]
        if not walked.ended:
            left = b"[" + left.lstrip().removeprefix(b",")
        self._buffer, self._at = bytearray(left), 0
        return events

    def _one_by_one(self, text: bytes, spans: list[tuple[int, int]]) -> Iterator[T]:
        """Decode each event by itself; count those that cannot be read."""
        for start, end in spans:
            event_text = text[start:end]
            try:
                yield from self._decode(b"[" + event_text + b"]")
            except _REFUSED:
                event = self._decode_event(event_text)
                if event is None:
                    self._lost += 1
                else:
                    yield event

    def _keep_tail(self, block: bytes | None) -> None:
        """Add the values after the events to `header`."""
        tail = self._buffer[self._at :]
        while block is not None and len(tail) < _LONGEST_TAIL:
            tail += block
            block = next(self._blocks, None)
        if block is None:
            self._keep_header(b"{" + bytes(tail).lstrip().lstrip(b","))
        else:
            self._warn("The values after the list of events are too long and were left out.")

    def _keep_header(self, text: bytes) -> None:
        """Add the values of a JSON object to `header`."""
        if text.strip() in (b"}", b"{", b"{}", b"{]", b"[}"):
            return
        for prepare in (bytes, repaired):
            try:
                values = msgspec.json.decode(prepare(text))
            except _REFUSED:
                continue
            if isinstance(values, dict):
                self.header.update(values)
            return
        if self._ended or not self.header:
            self._warn("The values beside the list of events could not be read.")
