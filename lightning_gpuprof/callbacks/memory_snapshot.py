"""Writes snapshots of the device allocator, after chosen steps and when memory runs out."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import torch
from typing_extensions import override

from lightning_gpuprof.adapters.callback_hooks import (
    AFTER_BACKWARD,
    BATCH_END,
    BATCH_START,
    BEFORE_BACKWARD,
)
from lightning_gpuprof.adapters.lightning import LightningModule, Trainer
from lightning_gpuprof.adapters.memory_history import CudaMemoryHistory, memory_history
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.memory.device import out_of_memory_error
from lightning_gpuprof.memory.kinds import kind_addresses
from lightning_gpuprof.records import files
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import Note, Snapshot
from lightning_gpuprof.runtime import fits
from lightning_gpuprof.runtime.console import say
from lightning_gpuprof.runtime.context import RunContext
from lightning_gpuprof.runtime.guard import guarded
from lightning_gpuprof.runtime.hooks import HookSet, dispatcher_in
from lightning_gpuprof.runtime.recording import RecordingCallback

_OTHER = "between"
_MOST_FAILED = 4
"""At most this many failed allocations are dumped, since a dump takes a second, and since cuDNN may
fail to allocate memory at every new shape."""


class SnapshotFiles:
    """Writes the snapshots of a rank, and deletes all but the newest `keep`."""

    def __init__(
        self, context: RunContext, history: CudaMemoryHistory, trainer: Trainer, *, keep: int
    ) -> None:
        self.history = history
        self._context = context
        self._trainer = trainer
        self._keep = keep
        self._folder = Path(files.plugin_dir(context.run_dir))

    def write(self, step: int, reason: str, oom: dict[str, int] | None = None) -> Snapshot:
        """Write a snapshot, and beside it the addresses of the model. Return its record."""
        name = files.snapshot_name(self._context.rank, self._context.session, step, reason)
        path = self.path(name)
        trainer = self._trainer
        try:
            self.history.dump(str(path))
            kinds = json.dumps(kind_addresses(trainer.lightning_module, trainer.optimizers))
            Path(f"{path}{files.KINDS_SUFFIX}").write_text(kinds, encoding="utf-8")
        except BaseException:
            self.remove(name)
            raise
        return Snapshot(step, reason, file=name, oom=oom or {})

    def record(self, written: Snapshot) -> None:
        """Write the record of a snapshot, and delete the oldest snapshots."""
        self._context.write(written)
        self._context.flush()
        snapshots = self._folder.glob(f"rank{self._context.rank}-*{files.SNAPSHOT_SUFFIX}")
        for old in sorted(snapshots, key=lambda path: path.stat().st_mtime_ns)[: -self._keep]:
            self.remove(old.name)

    def remove(self, name: str) -> None:
        """Delete the files of a snapshot."""
        for suffix in ("", files.KINDS_SUFFIX, files.ANALYSIS_SUFFIX):
            Path(f"{self.path(name)}{suffix}").unlink(missing_ok=True)

    def path(self, name: str) -> Path:
        """Return the path of a snapshot's file."""
        return self._folder / name


class MemorySnapshot(RecordingCallback):
    """Records what is in the device's memory, with the line that allocated it.

    Torch records the history, which is the last `max_entries` allocations with their Python stacks,
    in host memory. Every rank writes its own files, which pytorch.org/memory_viz can open too. If
    an OOM ends training, a snapshot is written and the lines that filled the memory are shown. The
    error itself is raised as usual. If the program or a library catches an OOM, as cuDNN does to
    choose another algorithm, no snapshot remains. On a CPU nothing is recorded.

    Costs: a walk over the Python stack for each allocation.
    Touches: torch's recording of the allocator's history, of which a process has only one.
    When: training on a GPU, if it is switched on.
    Switch: memory_snapshot=False (the default)

    Args:
        steps: The first step to record, and the first step after that which is not recorded. The
            snapshot is written between them. Steps are training batches of this `fit`, from 0.
        on_oom: Record from the start of training, for a snapshot if an allocation fails.
        keep: How many snapshots are kept per rank. The oldest are deleted.
        max_entries: The length of the history, in events.
        history: Returns the allocator's history of a device; tests pass a fake.

    Raises:
        ConfigError: A number cannot work, or nothing would be recorded.
    """

    _of_a_run = ("_files",)

    def __init__(
        self,
        *,
        steps: tuple[int, int] | None = None,
        on_oom: bool = True,
        keep: int = 3,
        max_entries: int = 100_000,
        history: Callable[[torch.device], CudaMemoryHistory | None] = memory_history,
    ) -> None:
        _check(steps, on_oom, keep, max_entries)
        super().__init__()
        self.steps = steps
        self.on_oom = on_oom
        self.keep = keep
        self.max_entries = max_entries
        self._make_history = history
        self._files: SnapshotFiles | None = None
        self._recording = False
        self._step = self._failures = 0
        self._failed: Snapshot | None = None
        self._hooks = HookSet(
            {
                BATCH_START: self._step_begins,
                BEFORE_BACKWARD: partial(self._begin_phase, Phase.BACKWARD.value),
                AFTER_BACKWARD: partial(self._begin_phase, Phase.OPTIMIZER_STEP.value),
                BATCH_END: self._step_ended,
            }
        )

    @override
    @guarded
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        device = trainer.strategy.root_device
        self._step, self._failed, self._failures = 0, None, 0
        if self._context is None:
            return
        history = self._make_history(device)
        if history is None or fits.runs_elsewhere():
            why = "an allocator without a history" if device.type == "cuda" else "no GPU"
            if history is not None:
                why = "another thread of this process trains too, and a process has one history"
            message = f"{why}: no snapshot is written"
            self._context.write(Note(step=0, name="memory-snapshot-not-measured", message=message))
            return
        self._files = SnapshotFiles(self._context, history, trainer, keep=self.keep)
        # The hooks are added only now, so that a batch costs nothing if nothing can be recorded.
        self._hooks.add(dispatcher_in(trainer, self))
        if self.on_oom:
            self._record()
            history.listen_for_oom(self._on_failed_allocation)

    @guarded
    def _step_begins(self, *_: Any) -> None:
        """Begin to record at the first of `steps`."""
        if self.steps is not None and self._step == self.steps[0]:
            self._record()
        self._note(Phase.FORWARD.value)

    @guarded
    def _begin_phase(self, phase: str, *_: Any) -> None:
        self._note(phase)

    @guarded
    def _step_ended(self, *_: Any) -> None:
        """Write the snapshot after the last step of `steps`."""
        self._note(_OTHER)
        self._forget_caught()
        self._step += 1
        if self.steps is not None and self._step == self.steps[1]:
            if self._files is not None:
                self._files.record(self._files.write(self._step, "window"))
            if not self.on_oom:
                self._stop()

    @override
    def _rescue(self, trainer: Trainer, exception: BaseException) -> None:
        """After an OOM, show the lines that filled the memory.

        Any error counts that ends a step in which an allocation has failed: cuDNN may then say that
        it finds no engine, or cuBLAS that it cannot be initialized. Ctrl-C and SIGTERM do not
        count.
        """
        if self._files is None or not self.on_oom or not isinstance(exception, Exception):
            return
        failed, self._failed = self._failed, None
        if failed is None and isinstance(exception, out_of_memory_error()):
            failed = self._files.write(self._step, "oom")
        self._stop()
        if failed is not None:
            self._files.record(failed)
            _report(str(self._files.path(failed.file)))

    @guarded
    def _on_failed_allocation(self, device: int, requested: int, total: int, free: int) -> None:
        """Write a snapshot at the first failed allocation of a step.

        Only later is it known whether the failure ends training. By then most of the memory would
        be free again.
        """
        if self._files is not None and self._failed is None and self._failures < _MOST_FAILED:
            self._failures += 1
            oom = {
                "requested_bytes": requested,
                "device_total_bytes": total,
                "device_free_bytes": free,
            }
            self._failed = self._files.write(self._step, "oom", oom)

    def _forget_caught(self) -> None:
        """Delete the snapshot of a failed allocation whose error was caught."""
        failed, self._failed = self._failed, None
        if failed is not None and self._files is not None:
            self._files.remove(failed.file)

    def _record(self) -> None:
        if self._files is not None and not self._recording:
            self._files.history.start(self.max_entries)
            self._recording = True

    def _note(self, phase: str) -> None:
        if self._files is not None and self._recording:
            self._files.history.note(phase)

    def _stop(self) -> None:
        if self._files is not None and self._recording:
            self._recording = False
            self._files.history.stop()

    @override
    def _release(self) -> None:
        self._forget_caught()
        self._stop()
        self._files = None
        self._hooks.drop()


def _report(path: str) -> None:
    # These are imported here because only a run that fails needs the reading side.
    from lightning_gpuprof.analysis.memory.memory_dump import analyze_snapshot_file
    from lightning_gpuprof.report.build_file import build_memory
    from lightning_gpuprof.report.console import render

    dump = analyze_snapshot_file(path)
    Path(f"{path}{files.ANALYSIS_SUFFIX}").write_bytes(msgspec.json.encode(dump))
    say(f"[PROFILE] out of memory; snapshot: {path}\n{render(build_memory(path, dump))}")


def _check(steps: tuple[int, int] | None, on_oom: bool, keep: int, max_entries: int) -> None:
    is_pair = isinstance(steps, list | tuple) and len(steps) == 2
    records = on_oom if steps is None else is_pair and 0 <= steps[0] < steps[1]
    if not records or keep < 1 or max_entries < 1:
        raise ConfigError(
            f"MemorySnapshot(steps={steps}, on_oom={on_oom}, keep={keep}, "
            f"max_entries={max_entries}) would record nothing. Pass the first step to record and "
            "the first step after that, such as steps=(10, 13), or on_oom=True. keep and "
            "max_entries must be 1 or more."
        )
