"""The name of this machine's CPU."""

import platform
from contextlib import suppress

CPU_INFO = "/proc/cpuinfo"


def processor_name(path: str = CPU_INFO) -> str | None:
    """Return the name of the CPU as its vendor gives it, or what Python knows of it."""
    with suppress(OSError), open(path, encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or None
