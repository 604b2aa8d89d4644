"""The child processes of `try`. They train when they are ordered to, and none outlives `try`."""

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
from lightning_gpuprof.records.trials import ChangedSettings
from lightning_gpuprof.trials import reaper
from lightning_gpuprof.trials.pairs import TrainedBlock

CHILD = "lightning_gpuprof.trials.child"
_LAST_LINES = 12
ENVIRONMENT = {
    "LIGHTNING_GPUPROF": "on",  # a trial measures by callbacks of this package
    "WANDB_MODE": "disabled",
    "NEPTUNE_MODE": "debug",
    "COMET_START_ONLINE": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
}
"""Keeps experiment trackers from sending anything, and Python from writing `__pycache__`."""


class Request(msgspec.Struct):
    """The task of a child: which program to run, with which changes."""

    program: list[str]
    """A script with its arguments, `-m` and a module, or `--functions` and three functions."""
    settings: ChangedSettings = ChangedSettings()
    warm: int = 20
    """Steps before the first block."""
    watch: bool = False
    """Train once under GpuProfCallback, without orders."""
    folder: str = ""
    orders: int = -1
    """The file descriptor from which the child reads how many steps to train next."""
    replies: int = -1
    """The file descriptor to which the child writes the blocks that it has trained."""
    parent: int = 0
    """The process id of `try`."""


class ChildFailed(Exception):
    """A child ended, or did not answer in time. The message holds the last lines of its output."""


class Children:
    """The child processes of `try` and the folder they write to, for use in a `with` statement.

    A process of its own (`reaper.py`) ends the children and removes the folder, however `try` ends.

    Args:
        program: The program, as `Request.program` holds it.
        until: The time (`time.monotonic`) after which no answer of a child is waited for.
    """

    def __init__(self, program: Sequence[str], until: float) -> None:
        self.program = list(program)
        self.until = until
        self._count = 0

    def __enter__(self) -> "Children":
        self.folder = tempfile.mkdtemp(prefix="gpuprof-try-")  # short: sockets' paths are limited
        command = [sys.executable, "-I", "-S", reaper.__file__, self.folder]
        self._reaper = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        return self

    def __exit__(self, *error: object) -> None:
        self._reaper.communicate()  # closes the reaper's input, which makes it act

    def start(self, request: Request, *fds: int) -> "subprocess.Popen[bytes]":
        """Start a child in a process group and a folder of its own."""
        self._count += 1
        folder = f"{self.folder}/{self._count}"
        request.folder = folder
        request.parent = os.getpid()
        os.mkdir(folder)
        places = {"TMPDIR": folder, "MLFLOW_TRACKING_URI": f"file:{folder}/mlflow"}
        with open(f"{folder}/log", "wb") as log:
            child = subprocess.Popen(
                [sys.executable, "-m", CHILD, msgspec.json.encode(request).decode()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **ENVIRONMENT, **places},
                pass_fds=fds,
                start_new_session=True,
            )
        self._write_to_reaper(f"+{child.pid}\n")
        return child

    def end(self, child: "subprocess.Popen[bytes]") -> None:
        """End a child and the workers that it has started."""
        _signal_group(child, signal.SIGKILL)
        child.wait()
        self._write_to_reaper(f"-{child.pid}\n")

    def _write_to_reaper(self, line: str) -> None:
        assert self._reaper.stdin is not None
        self._reaper.stdin.write(line.encode())
        self._reaper.stdin.flush()

    def watch(self) -> str:
        """Train for some seconds under GpuProfCallback, and return the folder of the records."""
        request = Request(self.program, watch=True)
        child = self.start(request)
        with suppress(subprocess.TimeoutExpired):
            child.wait(timeout=max(1.0, self.until - time.monotonic()))
        status = child.returncode
        self.end(child)
        if status:
            raise ConfigError(
                f"{' '.join(self.program)} failed with status {status} before it trained. The "
                "program must run by itself before changes can be tried. Its last lines:\n"
                f"{_last_lines(request.folder)}"
            )
        return request.folder


class Variant:
    """The program with some changes, in a child process that runs only to train a block.

    Between blocks the child and its DataLoader workers are stopped, so that they do not disturb
    other variants and do not prepare batches ahead.

    Args:
        children: Starts the child.
        settings: The changes.
        warm: Steps before the first block.
        steps: Steps of a block.
        alone: Whether the child ends after each block, so that the next variant has the whole
            memory of the GPU.
    """

    def __init__(
        self,
        children: Children,
        settings: ChangedSettings,
        *,
        warm: int,
        steps: int,
        alone: bool = False,
    ) -> None:
        self._children = children
        self._settings = settings
        self._warm, self._steps = warm, steps
        self.alone = alone
        self._child: subprocess.Popen[bytes] | None = None
        self._orders = self._replies = -1
        self._folder = ""
        self.first: TrainedBlock | None = None
        """The block at the end of the warm-up, with the first losses."""

    def train_block(self) -> TrainedBlock:
        """Train a block of steps. Raises `ChildFailed` if that is impossible."""
        was_running = self._child is not None
        try:
            block = self._train_block()
        except ChildFailed:
            self.close()
            if not was_running or time.monotonic() >= self._children.until:
                raise
            # The program may have trained to its own end: start it again, once.
            block = self._train_block()
        if self.alone:
            self.close()
        return block

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            self._children.end(self._child)
            os.close(self._orders)
            os.close(self._replies)
            self._child = None

    def _train_block(self) -> TrainedBlock:
        child = self._child or self._start()
        with suppress(BrokenPipeError):  # the child has ended, which `_reply` reports
            os.write(self._orders, f"{self._steps}\n".encode())
        _signal_group(child, signal.SIGCONT)
        return self._reply(child)

    def _start(self) -> "subprocess.Popen[bytes]":
        """Start the child and wait for the end of its warm-up."""
        orders_of_child, self._orders = os.pipe()
        self._replies, replies_of_child = os.pipe()
        request = Request(
            self._children.program,
            self._settings,
            self._warm,
            orders=orders_of_child,
            replies=replies_of_child,
        )
        self._child = self._children.start(request, orders_of_child, replies_of_child)
        self._folder = request.folder
        os.close(orders_of_child)
        os.close(replies_of_child)
        warm_up = self._reply(self._child)
        self.first = self.first or warm_up
        return self._child

    def _reply(self, child: "subprocess.Popen[bytes]") -> TrainedBlock:
        """Wait for a block and stop the child."""
        text = b""
        while not text.endswith(b"\n"):
            left_s = max(0.0, self._children.until - time.monotonic())
            if not select.select([self._replies], [], [], left_s)[0]:
                raise ChildFailed("it took longer than the time that was left")
            received = os.read(self._replies, 65536)
            if not received:
                raise ChildFailed(_last_lines(self._folder))
            text += received
        _signal_group(child, signal.SIGSTOP)
        return msgspec.json.decode(text, type=TrainedBlock)


def _signal_group(child: "subprocess.Popen[bytes]", number: int) -> None:
    """Send a signal to a child and to the workers that it has started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)


def _last_lines(folder: str) -> str:
    text = Path(folder, "log").read_text(encoding="utf-8", errors="replace").strip()
    lines = "\n".join(text.splitlines()[-_LAST_LINES:])
    return lines or "it ended without training: it must call Trainer.fit"
