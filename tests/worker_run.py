"""A made run whose loader's worker processes were looked at."""

from pathlib import Path

from made_records import run_end, run_start, windows, write_run

from lightning_gpuprof.analysis.run.host_lines import LineCount
from lightning_gpuprof.records.lines import WorkerLines
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import Loader


def worker_run(folder: Path, *, steps: int = 100) -> Path:
    """Two workers, of whose 200 samples 40 are waits; of the others 90 in 100 are at one line."""
    line = LineCount("data_wait", "data/text.py", 12, "decode", "total += byte", None, None, 144)
    seen = WorkerLines(2, 160, 40, 0, (line,))
    return write_run(
        folder,
        [
            run_start(loader=Loader(num_workers=2, batch_size=32)),
            *windows(steps, {Phase.DATA_WAIT: 12.0, Phase.FORWARD: 8.0}),
            seen,
            run_end(steps),
        ],
    )
