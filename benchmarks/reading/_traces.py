"""Makes traces for the trace engine's benchmark: real traces repeated to any size, or generated.

    python benchmarks/reading/_traces.py SOURCE MEGABYTES TARGET      # prints the size in MB

Runs as a process of its own: a child's peak memory begins with that of the process it was forked
from.
"""

import gzip
import json
import re
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "tests"))  # for what tests use too

from synthetic import SyntheticSpec, write_synthetic

EVENTS_PER_STEP = 225
"""That `SyntheticSpec` writes by default."""
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_NUMBERS = re.compile(rb'("ts": |"correlation": |"External id": |"id": )(\d+)')
_IDS_APART = 10_000_000
_GZIP_LEVEL = 3


def repeat(source: Path, megabytes: int, target: Path) -> float:
    """Repeat a trace's events, with times and ids shifted, to about that size; return it in MB."""
    data = gzip.decompress(source.read_bytes())
    found = _EVENTS.search(data)
    if found is None:
        raise SystemExit(f"{source} holds no traceEvents.")
    head = found.end()
    tail = _end_of_events(data, head)
    body = data[head:tail]
    times = [int(at) for at in re.findall(rb'"ph": "X".*?"ts": (\d+)', body, re.DOTALL)]
    apart = max(times) - min(times) + 10_000
    copies = max(1, round(megabytes * 1e6 / len(data)))
    size = len(data) - len(body)
    with gzip.open(target, "wb", compresslevel=_GZIP_LEVEL) as file:
        file.write(data[:head])
        for copy in range(copies):
            text = (b"," if copy else b"") + (_shifted(body, copy, apart) if copy else body)
            size += len(text)
            file.write(text)
        file.write(data[tail:])
    return size / 1e6


def generate(events: int, target: Path) -> float:
    """Write a generated trace of about that many events; return its size in MB."""
    write_synthetic(target, SyntheticSpec(steps=max(1, round(events / EVENTS_PER_STEP))))
    return target.stat().st_size / 1e6


def _shifted(body: bytes, copy: int, apart: int) -> bytes:
    def moved(found: "re.Match[bytes]") -> bytes:
        shift = apart if found[1].startswith(b'"ts') else _IDS_APART
        return b"%b%d" % (found[1], int(found[2]) + shift * copy)

    return _NUMBERS.sub(moved, body)


def _end_of_events(data: bytes, head: int) -> int:
    """Return where the list that starts just before `head` is closed."""
    for found in re.finditer(rb"\}\s*(\])\s*[,}]", data[head:]):
        try:
            json.loads(b"[" + data[head : head + found.start(1)] + b"]")
        except ValueError:
            continue
        return head + found.start(1)
    raise SystemExit("The list of events has no end.")


if __name__ == "__main__":
    what, amount, out = sys.argv[1:]
    made = generate(int(amount), Path(out)) if what == "generated" else None
    print(repeat(Path(what), int(amount), Path(out)) if made is None else made)
