"""Computes something on a second core, in a forked process."""

import os
import pickle
import sys
import threading
from collections.abc import Callable
from typing import Any, BinaryIO, TypeVar

T = TypeVar("T")
_COUNT = 8


def aside(compute: Callable[[], T]) -> Callable[[], T]:
    """Begin to compute something in a copy of this process; call what is returned for the result.

    It is computed in this process instead, when the result is asked for, where the copy came to
    no result (so that an exception is raised here), where there is only one core, on systems on
    which copying a process is not safe, and where this process has threads: a copy has only one,
    and a lock that another held would stay locked in it for ever.

    >>> total = aside(lambda: sum(range(10)))
    >>> total()
    45
    """
    if not second_core():
        return compute
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            with os.fdopen(writing, "wb") as file:
                _send(compute(), file)
        finally:
            # At once: no handler of the parent's may run, and nothing of its output be written.
            os._exit(0)
    os.close(writing)

    def result() -> T:
        try:
            with os.fdopen(reading, "rb") as file:
                return _received(file)  # type: ignore[no-any-return]
        except EOFError:
            return compute()
        finally:
            os.waitpid(child, 0)

    return result


def second_core() -> bool:
    """Tell whether another process would compute what `aside` is given."""
    if sys.platform != "linux" or threading.active_count() > 1:
        return False
    return len(os.sched_getaffinity(0)) > 1


def _send(value: object, file: BinaryIO) -> None:
    """Write a value; arrays as they are in memory, without a copy."""
    arrays: list[pickle.PickleBuffer] = []
    head = pickle.dumps(value, protocol=5, buffer_callback=arrays.append)
    parts = [memoryview(head), *(array.raw() for array in arrays)]
    file.write(len(parts).to_bytes(_COUNT, "little"))
    for part in parts:
        file.write(part.nbytes.to_bytes(_COUNT, "little"))
        file.write(part)


def _received(file: BinaryIO) -> Any:
    """Read what `_send` wrote.

    Raises:
        EOFError: It was not written to its end.
    """
    parts = [_part(file) for _ in range(int.from_bytes(_exactly(file, _COUNT), "little"))]
    return pickle.loads(parts[0], buffers=parts[1:])


def _part(file: BinaryIO) -> bytearray:
    return _exactly(file, int.from_bytes(_exactly(file, _COUNT), "little"))


def _exactly(file: BinaryIO, size: int) -> bytearray:
    data = bytearray(size)
    if file.readinto(data) != size:  # type: ignore[attr-defined]
        raise EOFError("The other process ended before its result was whole.")
    return data
