"""Scripts tried in processes of their own: nothing of theirs is touched, nothing is left."""

import hashlib
import importlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from lightning_gpuprof.cli import main
from lightning_gpuprof.records.trials import read_trials
from lightning_gpuprof.report.document import decode
from lightning_gpuprof.report.load import load_report
from lightning_gpuprof.trials import trial_series
from lightning_gpuprof.trials.try_changes import try_changes

SCRIPT = """
import gc
import sys
from pathlib import Path
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader

HERE = Path(__file__).parent
gc.freeze()  # a collection of torch's objects takes 0.1 s, ten times as long as a block here


class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        sum(range(300_000))
        return torch.full((4,), float(index))


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(4, 1)

    def training_step(self, batch, batch_idx):
        with open(HERE / "steps.txt", "a") as file:
            file.write("step ")
        loss = self.net(batch).square().mean()
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.net(batch).mean())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


def make_trainer():
    kept = ModelCheckpoint(HERE / "checkpoints", every_n_train_steps=5)
    return Trainer(
        max_epochs=11, accelerator="cpu", logger=CSVLogger(HERE / "logs"),
        callbacks=[kept, EarlyStopping("val_loss", patience=0)], log_every_n_steps=1,
        enable_progress_bar=False, enable_model_summary=False,
    )


def make_data():
    return DataLoader(Slow(), batch_size=4)


def make_quick_data():
    return DataLoader(torch.ones(400, 4), batch_size=4)


if __name__ == "__main__":
    assert sys.argv[1:] == ["--lr", "1"], sys.argv
    make_trainer().fit(Net(), make_data(), make_data())
    raise SystemExit("a trial goes no further than its steps")
"""
CLI = """
from lightning.pytorch.cli import LightningCLI
from lightning.pytorch.demos.boring_classes import BoringDataModule, BoringModel
LightningCLI(BoringModel, BoringDataModule)
"""
CONFIG = """
trainer: {max_epochs: 12, accelerator: cpu, enable_progress_bar: false, log_every_n_steps: 1}
"""


def tree(folder):
    """Return a hash of each file, but for those of a run that the test writes."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in Path(folder).rglob("*")
        if path.is_file() and "plugins" not in path.parts
    }


def left_in(folder):
    return [path.name for path in Path(folder).glob("gpuprof-try-*")]


@pytest.fixture
def temporary(tmp_path, monkeypatch):  # pytest's own folder is made before
    """A folder for what is temporary; its path is short, as workers have sockets in it."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A user's folder with a script, for which few and short blocks are enough."""
    monkeypatch.setattr(trial_series, "MAX_PAIRS", 4)
    monkeypatch.setattr(importlib.import_module(try_changes.__module__), "_BLOCK_NS", 0.1e9)
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "steps.txt").write_text("mine ")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_script_is_tried_and_nothing_of_the_users_is_touched(home, temporary, capfd):
    before = tree(home)
    asked = ["--change", "cached_batches", "--for", "60s", "--json", "--write", "/dev/null"]
    assert main(["try", *asked, "train.py", "--lr", "1"]) == 0
    document = decode(capfd.readouterr().out)
    trial = document.rows("trials")[0]
    assert trial["verdict"] == "faster"
    assert trial["gain_frac"] > 0.5  # most of its step makes a batch
    as_it_is, changed = document.rows("trial_effects")[:2]
    assert changed["samples_per_s"] > as_it_is["samples_per_s"]
    assert tree(home) == before
    assert left_in(temporary) == []


def test_a_program_of_lightning_cli_is_tried_and_its_report_gets_the_result(
    home, make_session, write_run, capfd
):
    pytest.importorskip("jsonargparse")
    (home / "cli.py").write_text(CLI)
    (home / "config.yaml").write_text(CONFIG)
    optimizers = {"optimizers": [{"class": "SGD", "package": "torch"}]}
    run = write_run(make_session({"forward": 10**6, "optimizer_step": 10**6}, model=optimizers))
    before = tree(home)
    asked = ["--change", "optimizer=foreach", "--into", run, "--for", "45s"]
    command = ["python", "cli.py", "fit", "--config", "config.yaml"]
    assert main(["try", *asked, "--", *command]) == 0
    assert "optimizer=foreach" in capfd.readouterr().out
    assert tree(home) == before
    [trial] = read_trials(run).trials
    assert trial.pairs >= 2
    assert trial.losses in ("bit-equal", "within tolerance")
    assert load_report(run).trials.program == "cli.py fit --config config.yaml"


def test_functions_are_tried(home, temporary, monkeypatch):
    monkeypatch.syspath_prepend(str(home))
    import train

    functions = (train.make_trainer, train.Net, train.make_quick_data)
    found = try_changes(*functions, changes=[("num_workers", 1)], seconds=45)
    del sys.modules["train"]  # of another folder for the next test
    assert found.trials[0].after is not None, found.trials[0].note
    assert left_in(temporary) == []


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("raise ValueError('the script broke')", "ValueError: the script broke"),
        ("print('no training here')", "trained no steps by which changes could be chosen"),
    ],
)
def test_a_script_that_does_not_train_is_refused_with_what_it_said(
    home, temporary, capfd, source, said
):
    (home / "train.py").write_text(source)
    assert main(["try", "train.py"]) == 2
    assert said in capfd.readouterr().err
    assert left_in(temporary) == []


def processes_with(text):
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if text in command and state != "Z":
            found.append(int(entry.name))
    return found


HEEDING_CTRL_C = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
from lightning_gpuprof.cli import entry
entry()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_try_leaves_no_process_and_no_file(home, temporary, number):
    before, folder = tree(home), temporary
    command = [sys.executable, "-c", HEEDING_CTRL_C, "try", "train.py", "--lr", "1"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    wait_until(lambda: list(folder.glob("*/1/log")) and any(folder.rglob("steps.txt")))
    os.kill(process.pid, number)
    process.wait(timeout=60)
    wait_until(lambda: not left_in(folder) and not processes_with(str(folder)))
    assert tree(home) == before


def wait_until(true, seconds=60):
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "it did not happen"
        threading.Event().wait(0.05)  # other processes have the cores
