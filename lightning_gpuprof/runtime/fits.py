"""Which sessions run in this process, and which of them holds the profiler.

A process has one profiler, whose observers belong to the thread that began the recording: a second
recording beside it, or an end in another thread, crashes the process. Trainers may run in several
threads, as Optuna's `n_jobs` runs them.
"""

import threading
from weakref import WeakKeyDictionary

_LOCK = threading.RLock()
_THREADS: "WeakKeyDictionary[object, threading.Thread]" = WeakKeyDictionary()
"""The thread of every session that runs."""
_HOLDERS: list[object] = []
"""The session that holds the profiler, if there is one."""


def begin(session: object) -> None:
    """Note that a session runs in the current thread, until `end` is called."""
    with _LOCK:
        _THREADS[session] = threading.current_thread()


def end(session: object) -> None:
    """Note that a session has ended."""
    with _LOCK:
        _THREADS.pop(session, None)


def runs_elsewhere() -> bool:
    """Return whether a session runs in another thread of this process."""
    with _LOCK:
        return _any_elsewhere()


def several() -> bool:
    """Return whether sessions run in several threads of this process."""
    with _LOCK:
        return len({thread.ident for thread in _THREADS.values() if thread.is_alive()}) > 1


def claim_profiler(session: object) -> bool:
    """Let a session hold the profiler until `release_profiler`, and return whether it does.

    It does not if a session runs in another thread, or if the profiler is held already.
    """
    with _LOCK:
        if _HOLDERS or _any_elsewhere():
            return False
        _HOLDERS.append(session)
        return True


def release_profiler(session: object) -> None:
    """Give the profiler back, if this session holds it."""
    with _LOCK:
        if session in _HOLDERS:
            _HOLDERS.remove(session)


def _any_elsewhere() -> bool:
    current = threading.current_thread()
    return any(thread is not current and thread.is_alive() for thread in _THREADS.values())
