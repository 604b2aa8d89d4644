"""Two processes over gloo on the CPU are asked for the same steps."""

import pytest
from rank_processes import run_script

from lightning_gpuprof.records.capture_files import CaptureAnswer, answer_path, read_file
from lightning_gpuprof.records.facts import Capture
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import ProfilerCycle

SCRIPT = """
import sys
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader
from lightning_gpuprof import GpuProfCallback
from lightning_gpuprof.callbacks import capture_control
from lightning_gpuprof.records.capture_files import CaptureRequest, request_path, write_file
from lightning_gpuprof.runtime.context import RunContext

# Steps take a millisecond or so here, and both ranks look every 20 ms.
capture_control.STAT_NS, capture_control.LOOK_NS = 20_000_000, 1_000_000
capture_control.AGREE_NS = 200_000_000

class Asks(BoringModel):
    def training_step(self, batch, batch_idx):
        context = RunContext.running(self.trainer)
        if batch_idx == 30 and context.rank == 0:
            request = CaptureRequest(
                id="0" * 8, started_unix_ns=context.started_unix_ns, steps=3, ranks=(0, 1),
                lines_s=0.0,
            )
            write_file(request_path(context.run_dir), request)
        return super().training_step(batch, batch_idx)

    def train_dataloader(self):
        return DataLoader(RandomDataset(32, 3_000))

if __name__ == "__main__":
    trainer = Trainer(
        accelerator="cpu", devices=2, strategy="ddp_fork", max_epochs=1, limit_val_batches=0,
        enable_progress_bar=False, enable_checkpointing=False, enable_model_summary=False,
        logger=CSVLogger(sys.argv[1], version=0),
        callbacks=[GpuProfCallback(console=False, report=False)],
    )
    trainer.fit(Asks())
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    script = folder / "train.py"
    script.write_text(SCRIPT)
    run_script(script, folder, timeout_s=180)
    return str(folder / "lightning_logs" / "version_0")


def test_two_ranks_record_the_same_steps(run):
    windows, answers = [], []
    for rank in (0, 1):
        session = read_run(run)[rank].sessions[0]
        windows += [cycle for cycle in session.all(ProfilerCycle) if cycle.capture is not None]
        assert session.all(Capture)[-1].problem == ""
        answers.append(read_file(answer_path(run, rank), CaptureAnswer))
    assert [window.trace_file for window in windows] == [
        "rank0-capture0.pt.trace.json.gz",
        "rank1-capture0.pt.trace.json.gz",
    ]
    assert len({(window.first_step, window.last_step) for window in windows}) == 1
    assert windows[0].last_step == windows[0].first_step + 2
    assert [answer.state for answer in answers] == ["done", "done"]


def test_only_the_schedules_rank_has_the_schedules_window(run):
    for rank, count in ((0, 1), (1, 0)):
        cycles = read_run(run)[rank].sessions[0].all(ProfilerCycle)
        assert len([cycle for cycle in cycles if cycle.capture is None]) == count
