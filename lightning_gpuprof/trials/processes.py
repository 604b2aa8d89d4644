"""The child processes of `try`: each trains when it is told to, and none outlives `try`."""

import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.trials import reaper
from lightning_gpuprof.trials.change import Settings
from lightning_gpuprof.trials.pairs import Block

CHILD = "lightning_gpuprof.trials.child"
_LAST_LINES = 12
_OFF = {
    "WANDB_MODE": "disabled",
    "NEPTUNE_MODE": "debug",
    "COMET_START_ONLINE": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
}
"""In a child's environment: trackers send nothing, and no `__pycache__` is written."""


class Request(msgspec.Struct):
    """A child's task: to read steps from `orders`, and write blocks of them to `replies`."""

    program: list[str]
    """A script with its arguments, `-m` and a module, or `--functions` and three of them."""
    settings: Settings = {}
    warm: int = 20
    watch: bool = False
    """Train once under GpuProfCallback, not block by block."""
    folder: str = ""
    orders: int = -1
    replies: int = -1
    parent: int = 0


class ChildFailed(Exception):
    """A child ended, or said nothing for too long; the message holds its last lines."""


class Family:
    """The children of one `try` and the folder that they write to, in a `with` statement.

    A process of its own (`reaper.py`) ends them all and removes the folder, however this one ends.
    No answer is waited for beyond `until` (`time.monotonic`).
    """

    def __init__(self, program: Sequence[str], until: float) -> None:
        self.program, self.until = list(program), until
        self._count = 0

    def __enter__(self) -> "Family":
        self.folder = tempfile.mkdtemp(prefix="gpuprof-try-")  # a socket's path is short
        command = [sys.executable, "-I", "-S", reaper.__file__, self.folder]
        self._reaper = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        return self

    def __exit__(self, *error: object) -> None:
        self._reaper.communicate()  # its input ends

    def start(self, request: Request, *fds: int) -> "subprocess.Popen[bytes]":
        """Start a child in a process group and a folder of its own."""
        self._count += 1
        folder = request.folder = f"{self.folder}/{self._count}"
        request.parent = os.getpid()
        os.mkdir(folder)
        home = {"TMPDIR": folder, "MLFLOW_TRACKING_URI": f"file:{folder}/mlflow"}
        with open(f"{folder}/log", "wb") as log:
            child = subprocess.Popen(
                [sys.executable, "-m", CHILD, msgspec.json.encode(request).decode()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **_OFF, **home},
                pass_fds=fds,
                start_new_session=True,
            )
        self._tell(f"+{child.pid}\n")
        return child

    def end(self, child: "subprocess.Popen[bytes]") -> None:
        """End a child, and the workers that it has started."""
        _signal(child, signal.SIGKILL)
        child.wait()
        self._tell(f"-{child.pid}\n")

    def _tell(self, line: str) -> None:
        assert self._reaper.stdin is not None
        self._reaper.stdin.write(line.encode())
        self._reaper.stdin.flush()

    def watch(self) -> str:
        """Train for some seconds under GpuProfCallback; return the folder of the records."""
        request = Request(self.program, watch=True)
        child = self.start(request)
        with suppress(subprocess.TimeoutExpired):
            child.wait(timeout=max(1.0, self.until - time.monotonic()))
        status = child.returncode
        self.end(child)
        if status:
            raise ConfigError(
                f"{' '.join(self.program)} failed with status {status} before it had trained. It "
                f"must run by itself first. Its last lines:\n{_last_lines(request.folder)}"
            )
        return request.folder


class Program:
    """A program with some changes, in a child that stands still but for the blocks asked for.

    Its workers stand still as well, so they make no batches ahead. Where it is to be `alone` the
    child ends after each block, so that the next has the GPU's memory to itself.
    """

    def __init__(
        self, family: Family, settings: Settings, *, warm: int, steps: int, alone: bool = False
    ) -> None:
        self._family, self._settings = family, settings
        self._warm, self._steps, self.alone = warm, steps, alone
        self._child: subprocess.Popen[bytes] | None = None
        self._orders = self._replies = -1
        self._folder = ""
        self.first: Block | None = None
        """The end of its warm-up, with its first losses."""

    def block(self) -> Block:
        """Train a block of steps, or raise `ChildFailed`."""
        begun = self._child is not None
        try:
            block = self._block()
        except ChildFailed:
            self.close()
            if not begun or time.monotonic() >= self._family.until:
                raise
            block = self._block()  # it had trained to its end: once more from its start
        if self.alone:
            self.close()
        return block

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            self._family.end(self._child)
            os.close(self._orders)
            os.close(self._replies)
            self._child = None

    def _block(self) -> Block:
        if self._child is None:
            theirs, self._orders = os.pipe()
            self._replies, answers = os.pipe()
            request = Request(self._family.program, self._settings, self._warm)
            request.orders, request.replies = theirs, answers
            self._child = self._family.start(request, theirs, answers)
            self._folder = request.folder
            os.close(theirs)
            os.close(answers)
            first = self._reply(self._child)
            self.first = self.first or first
        with suppress(BrokenPipeError):  # the reply then says that it ended
            os.write(self._orders, f"{self._steps}\n".encode())
        _signal(self._child, signal.SIGCONT)
        return self._reply(self._child)

    def _reply(self, child: "subprocess.Popen[bytes]") -> Block:
        text = b""
        while not text.endswith(b"\n"):
            left_s = max(0.0, self._family.until - time.monotonic())
            if not select.select([self._replies], [], [], left_s)[0]:
                raise ChildFailed("it took longer than the time that was left")
            read = os.read(self._replies, 65536)
            if not read:
                raise ChildFailed(_last_lines(self._folder))
            text += read
        _signal(child, signal.SIGSTOP)
        return msgspec.json.decode(text, type=Block)


def _signal(child: "subprocess.Popen[bytes]", number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)


def _last_lines(folder: str) -> str:
    text = Path(folder, "log").read_text(encoding="utf-8", errors="replace").strip()
    last = "\n".join(text.splitlines()[-_LAST_LINES:])
    return last or "it ended without training: it must call Trainer.fit"
