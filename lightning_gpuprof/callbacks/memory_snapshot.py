"""Snapshots of the device allocator: over a window of steps, on OOM and on demand."""

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from typing_extensions import override

from lightning_gpuprof.analysis.memory.memory_snapshot import BACKWARD, FORWARD, OPTIMIZER
from lightning_gpuprof.callbacks._lightning import LightningModule, Trainer
from lightning_gpuprof.callbacks.dispatch import Hooks, called_by_trainer
from lightning_gpuprof.callbacks.guard import guarded
from lightning_gpuprof.callbacks.output.console import say
from lightning_gpuprof.callbacks.recording import RecordingCallback
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.probes.memory.memory_history import (
    MemoryHistory,
    kind_addresses,
    memory_history,
)
from lightning_gpuprof.records.files import KINDS_SUFFIX, SNAPSHOT_SUFFIX, plugin_dir, snapshot_name
from lightning_gpuprof.records.schema import Note, Snapshot
from lightning_gpuprof.units import size

_OTHER = "between"
_MOST_CAUGHT = 3
"""Failed allocations that the program caught, after which no more are dumped: a dump takes a
second, and cuDNN may fail at each new shape."""


class MemorySnapshot(RecordingCallback):
    """Writes what fills the device's memory, with the line that asked for each block.

    torch keeps the history: the last `max_entries` allocations with their Python stacks, in host
    memory. That costs a stack walk per allocation, so leave this callback out of timed runs.
    Each rank writes its own files, which open at pytorch.org/memory_viz too. An OOM that ends
    training writes one and says what filled the memory; the error itself goes on. Of one that is
    caught (cuDNN then takes another algorithm) a note stays. On a CPU nothing is recorded.

    Costs: a walk over the Python stack for each allocation.
    Touches: torch's recording of the allocator's history, which is one per process.
    When: training on a GPU, where asked for.
    Switch: memory_snapshot=False (the default)

    Args:
        steps: First step of a window to record, and the first one after it; the snapshot is
            written at its end. Steps count training batches of this `fit` from 0.
        on_oom: Record from the start of training, for a snapshot where an allocation fails.
        keep: Snapshots kept per rank; the oldest go first.
        max_entries: Length of the history, in events.
        history: Gives the allocator's history of a device; tests pass a fake.

    Raises:
        ConfigError: A number makes no sense, or nothing would be recorded.
    """

    def __init__(
        self,
        *,
        steps: tuple[int, int] | None = None,
        on_oom: bool = True,
        keep: int = 3,
        max_entries: int = 100_000,
        history: Callable[[torch.device], MemoryHistory | None] = memory_history,
    ) -> None:
        _check(steps, on_oom, keep, max_entries)
        super().__init__()
        self.steps = steps
        self.on_oom = on_oom
        self.keep = keep
        self.max_entries = max_entries
        self._make_history = history
        self._history: MemoryHistory | None = None
        self._trained: tuple[Trainer, LightningModule] | None = None
        self._recording = False
        self._requested = False
        self._step = 0
        self._failed: Snapshot | None = None
        self._caught = 0
        self._lacked = False
        self._hooks = Hooks(
            {
                "on_train_batch_start": self._step_begins,
                "on_before_backward": partial(self._allocates_for, BACKWARD),
                "on_after_backward": partial(self._allocates_for, OPTIMIZER),
                "on_train_batch_end": self._step_ended,
            }
        )

    def request(self) -> None:
        """Ask for a snapshot at the end of the step that is running."""
        self._requested = True

    @override
    @guarded
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin the history, or say that there is none to record."""
        self._history = self._make_history(trainer.strategy.root_device)
        self._trained = trainer, pl_module
        self._step, self._failed, self._caught, self._lacked = 0, None, 0, False
        if self._history is None:
            if self._output is not None:
                on_gpu = trainer.strategy.root_device.type == "cuda"
                why = "an allocator without a history" if on_gpu else "no GPU"
                message = f"{why}: no snapshot is written"
                self._output.write(
                    Note(step=0, name="memory-snapshot-not-measured", message=message)
                )
            return
        # Only now, so that a batch costs nothing where there is nothing to record.
        self._hooks.add(called_by_trainer(trainer, self))
        if self.on_oom:
            self._record(self._history)
            self._history.listen_for_oom(self._on_failed_allocation)

    @guarded
    def _step_begins(self, *_: Any) -> None:
        """Begin the window where it is this step's turn."""
        if self._history is None:
            return
        if self.steps is not None and self._step == self.steps[0]:
            self._record(self._history)
        self._note(FORWARD)

    @guarded
    def _step_ended(self, *_: Any) -> None:
        """Write the window's snapshot at its end, and one that was asked for."""
        if self._history is None:
            return
        self._note(_OTHER)
        self._forgive()
        self._step += 1
        if self.steps is not None and self._step == self.steps[1]:
            self._dump("window")
            if not self.on_oom:
                self._stop()
        if self._requested:
            self._requested = False
            self._dump("request")

    @override
    def _rescue(self, trainer: Trainer, exception: BaseException) -> None:
        """On OOM, say what filled the memory; torch's own error goes on.

        Whatever error ends a step in which an allocation failed counts: cuDNN says that it found
        no engine, cuBLAS that it could not be initialized. Ctrl-C and SIGTERM are none.
        """
        if self._history is None or not self.on_oom or not isinstance(exception, Exception):
            return
        failed, self._failed = self._failed, None
        if failed is None and (self._lacked or _is_oom(exception)):
            failed = self._dumped("oom")
        self._stop()
        if failed is not None and self._output is not None:
            self._keep(failed)
            _report(str(self._path_of(failed.file)))

    @guarded
    def _on_failed_allocation(self, device: int, requested: int, total: int, free: int) -> None:
        """Write the state as it is when the allocation fails, once a step.

        Whether it ends training is not known yet. When it is, most of the memory is free again.
        """
        self._lacked = True
        if self._history is None or self._failed is not None or self._caught >= _MOST_CAUGHT:
            return
        said = {
            "requested_bytes": requested,
            "device_total_bytes": total,
            "device_free_bytes": free,
        }
        self._failed = self._dumped("oom", oom=said)

    def _forgive(self) -> None:
        """Leave a note of an allocation that failed, and was caught, in place of its snapshot."""
        failed, self._failed, self._lacked = self._failed, None, False
        if failed is None or self._output is None:
            return
        self._caught += 1
        _remove(self._path_of(failed.file))
        message = (
            f"an allocation of {size(failed.oom['requested_bytes'])} failed and was caught: cuDNN "
            "tries a slower algorithm then, or the program did it; no snapshot is kept"
        )
        self._output.write(Note(step=failed.step, name="oom-caught", message=message))

    @guarded
    def _allocates_for(self, phase: str, *_: Any) -> None:
        self._note(phase)

    def _record(self, history: MemoryHistory) -> None:
        if not self._recording:
            history.start(self.max_entries)
            self._recording = True

    def _note(self, phase: str) -> None:
        if self._recording and self._history is not None:
            self._history.note(phase)

    def _dump(self, reason: str) -> None:
        written = self._dumped(reason)
        if written is not None:
            self._keep(written)

    def _dumped(self, reason: str, oom: dict[str, int] | None = None) -> Snapshot | None:
        """Write a snapshot's files, and return the record of it."""
        output, history, trained = self._output, self._history, self._trained
        if output is None or history is None or trained is None:
            return None
        began = time.perf_counter_ns()
        name = snapshot_name(output.rank, output.session, self._step, reason)
        path = self._path_of(name)
        history.dump(str(path))
        trainer, module = trained
        kinds = kind_addresses(module, trainer.optimizers)
        Path(f"{path}{KINDS_SUFFIX}").write_text(json.dumps(kinds))
        return Snapshot(
            step=self._step,
            reason=reason,
            file=name,
            file_bytes=path.stat().st_size,
            dump_ns=time.perf_counter_ns() - began,
            oom=oom or {},
        )

    def _keep(self, written: Snapshot) -> None:
        """Note a snapshot in the records; the oldest make room."""
        assert self._output is not None
        self._output.write(written)
        self._output.flush()
        folder = self._path_of(written.file).parent
        _drop_oldest(folder, rank=self._output.rank, keep=self.keep)

    def _path_of(self, name: str) -> Path:
        assert self._output is not None
        return Path(plugin_dir(self._output.run_dir)) / name

    def _stop(self) -> None:
        if self._recording and self._history is not None:
            self._recording = False
            self._history.stop()

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy is made of; one that is made in training is in no run."""
        return self.__dict__ | {"_history": None, "_trained": None}

    @override
    def _release(self) -> None:
        self._forgive()
        self._stop()
        self._history = self._trained = None
        self._hooks.drop()


def _is_oom(exception: BaseException) -> bool:
    kind = getattr(torch, "OutOfMemoryError", None) or torch.cuda.OutOfMemoryError
    return isinstance(exception, kind)


def _report(path: str) -> None:
    # Here, not above: the reading side is of no use to a run that does not fail.
    from lightning_gpuprof.views.documents.other_files import snapshot_lines, snapshot_payload

    payload = snapshot_payload(path)
    Path(f"{path}.analysis.json").write_text(json.dumps(payload))
    say("\n".join([f"[PROFILE] out of memory; snapshot: {path}", *snapshot_lines(payload)]))


def _drop_oldest(folder: Path, *, rank: int, keep: int) -> None:
    files = sorted(
        folder.glob(f"rank{rank}-*{SNAPSHOT_SUFFIX}"), key=lambda path: path.stat().st_mtime_ns
    )
    for old in files[:-keep]:
        _remove(old)


def _remove(snapshot: Path) -> None:
    for suffix in ("", KINDS_SUFFIX, ".analysis.json"):
        Path(f"{snapshot}{suffix}").unlink(missing_ok=True)


def _check(steps: tuple[int, int] | None, on_oom: bool, keep: int, max_entries: int) -> None:
    pair = isinstance(steps, list | tuple) and len(steps) == 2
    if steps is not None and (not pair or not 0 <= steps[0] < steps[1]):
        raise ConfigError(
            f"MemorySnapshot(steps={steps}) is not a window. Pass the first step and the first one "
            "after it, such as (10, 13) for three steps."
        )
    if steps is None and not on_oom:
        raise ConfigError(
            "MemorySnapshot(steps=None, on_oom=False) would record nothing. Pass a window of "
            "steps, or on_oom=True."
        )
    if keep < 1:
        raise ConfigError(
            f"MemorySnapshot(keep={keep}) would delete every snapshot. Pass 1 or more."
        )
    if max_entries < 1:
        raise ConfigError(
            f"MemorySnapshot(max_entries={max_entries}) would keep no history. Pass 1 or more; "
            "100000 is some hundred steps of a transformer."
        )
