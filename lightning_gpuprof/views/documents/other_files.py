"""What a memory snapshot says, under the names that the tab's views import."""

from lightning_gpuprof.analysis.memory.memory_dump import SNAPSHOT_VERSION as SNAPSHOT_VERSION
from lightning_gpuprof.analysis.memory.memory_dump import (
    analyze_snapshot_file as snapshot_payload,
)

__all__ = ["SNAPSHOT_VERSION", "snapshot_payload"]
