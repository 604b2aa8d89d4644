"""Writes the files of a memory snapshot and keeps the newest."""

import json
from pathlib import Path

from lightning_gpuprof.adapters.lightning import Trainer
from lightning_gpuprof.adapters.memory_history import CudaMemoryHistory
from lightning_gpuprof.memory.kinds import kind_addresses
from lightning_gpuprof.records import files
from lightning_gpuprof.records.schema import Snapshot
from lightning_gpuprof.session.output import RunOutput


class SnapshotFiles:
    """The snapshots of one rank, of which the newest `keep` stay."""

    def __init__(
        self, output: RunOutput, history: CudaMemoryHistory, trainer: Trainer, *, keep: int
    ) -> None:
        self.history = history
        self._output = output
        self._trainer = trainer
        self._keep = keep
        self._folder = Path(files.plugin_dir(output.run_dir))

    def write(self, step: int, reason: str, oom: dict[str, int] | None = None) -> Snapshot:
        """Write a snapshot and the addresses of the model beside it; returns its record."""
        name = files.snapshot_name(self._output.rank, self._output.session, step, reason)
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
        """Write a snapshot's record; the oldest files make room."""
        self._output.write(written)
        self._output.flush()
        mine = self._folder.glob(f"rank{self._output.rank}-*{files.SNAPSHOT_SUFFIX}")
        for old in sorted(mine, key=lambda path: path.stat().st_mtime_ns)[: -self._keep]:
            self.remove(old.name)

    def remove(self, name: str) -> None:
        """Delete a snapshot's files."""
        for suffix in ("", files.KINDS_SUFFIX, files.ANALYSIS_SUFFIX):
            Path(f"{self.path(name)}{suffix}").unlink(missing_ok=True)

    def path(self, name: str) -> Path:
        """Return the path of a snapshot's file."""
        return self._folder / name
