"""Programs that import either package of Lightning or both, and machines without TensorBoard."""

import os
import subprocess
import sys

import pytest

WITHOUT_LIGHTNING = "import sys; sys.modules['lightning'] = None"
WITHOUT_TENSORBOARD = "import sys; sys.modules.update(dict.fromkeys(('tensorboard', 'google')))"
PROFILER = "from lightning_gpuprof import DeferredProgressBar, GpuProfCallback"
OTHER = "import pytorch_lightning as pl"
USUAL = "import lightning.pytorch as pl"

TRAINING = """
import sys
import torch
from pathlib import Path

package = pl.__name__
boring = __import__(f"{package}.demos.boring_classes", fromlist=["BoringModel"])
torch.manual_seed(0)
profiler, bar = GpuProfCallback(trace=False, lines=False), DeferredProgressBar()
assert isinstance(profiler, pl.Callback) and isinstance(bar, pl.callbacks.ProgressBar)
logger = pl.loggers.CSVLogger(sys.argv[1])
alone = pl.Trainer(callbacks=GpuProfCallback(), logger=False)
assert profiler.__class__ in {type(callback) for callback in alone.callbacks}
trainer = pl.Trainer(
    max_epochs=1, limit_train_batches=30, limit_val_batches=2, logger=logger,
    enable_checkpointing=False, enable_model_summary=False, callbacks=[profiler, bar],
)
bars = [c for c in trainer.callbacks if isinstance(c, pl.callbacks.ProgressBar)]
assert bars == [bar]
trainer.fit(boring.BoringModel())
(Path(sys.argv[1]) / "log_dir").write_text(trainer.log_dir)
"""


def run(folder, *lines):
    """Run a program, and return what it printed."""
    program = "\n".join(lines)
    environment = {n: text for n, text in os.environ.items() if not n.startswith("PL_TRAINER_")}
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert not done.returncode, done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    "imports",
    [
        pytest.param((WITHOUT_LIGHTNING, PROFILER, OTHER), id="pytorch_lightning alone"),
        pytest.param((PROFILER, OTHER), id="pytorch_lightning after us"),
        pytest.param((OTHER, PROFILER), id="pytorch_lightning before us"),
        pytest.param((USUAL, OTHER, PROFILER), id="both, training with pytorch_lightning"),
        pytest.param((OTHER, PROFILER, USUAL), id="both, training with lightning"),
    ],
)
def test_callbacks_work_in_a_trainer_of_either_package(imports, tmp_path):
    output = run(tmp_path, *imports, TRAINING)
    assert "WHERE A STEP GOES" in output
    assert "failed and is off" not in output


def test_a_program_with_one_package_does_not_import_the_other(tmp_path):
    run(tmp_path, OTHER, PROFILER, TRAINING, "assert 'lightning.pytorch' not in sys.modules")
    run(tmp_path, USUAL, PROFILER, TRAINING, "assert 'pytorch_lightning' not in sys.modules")


def test_without_tensorboard_a_run_is_recorded_and_reported(tmp_path):
    run(tmp_path, WITHOUT_TENSORBOARD, USUAL, PROFILER, TRAINING)
    log_dir = (tmp_path / "log_dir").read_text()
    page = tmp_path / "report.html"
    for arguments in (["report", log_dir], ["report", log_dir, "--html", str(page)]):
        command = f"from lightning_gpuprof.cli import entry; sys.argv[1:] = {arguments}; entry()"
        run(tmp_path, WITHOUT_TENSORBOARD, command)
    assert "gp-plotly" in page.read_text(encoding="utf-8")
