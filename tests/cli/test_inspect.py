"""`lightning-gpuprof inspect` on scripts, each run in a process of its own."""

import importlib
import json
import os
import signal
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest
import torch
from inspected import forget_compilations
from lightning.pytorch import Trainer

from lightning_gpuprof.cli import main
from lightning_gpuprof.cli.inspect import text
from lightning_gpuprof.inspect import child
from lightning_gpuprof.inspect.advice import advice
from lightning_gpuprof.records.inspection import CallCount, Inspection, Waste
from lightning_gpuprof.records.lines import CodePlace
from lightning_gpuprof.records.schema import SyncSite
from lightning_gpuprof.report.load import load_report

SEEDED = Path(__file__).parents[1] / "seeded_syncs.py"
SCRIPT = """
import sys
sys.path.insert(0, {folder!r})
from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import EarlyStopping
import seeded_syncs

if __name__ == "__main__":
    assert sys.argv[1:] == {arguments!r}, sys.argv
    print("chatter on stdout")
    trainer = Trainer(
        max_epochs=50, accelerator="cpu", logger=False, enable_checkpointing=False, devices=2,
        callbacks=[{callbacks}], enable_model_summary=False,
    )
    trainer.fit(seeded_syncs.{model}())
    raise SystemExit("an inspection goes no further than its steps")
"""


@pytest.fixture
def train(write_text):
    """Write a script; returns its path."""
    return lambda text: write_text(text, name="train.py")


@pytest.fixture
def script(train):
    def write(model, *, callbacks="", arguments=()):
        fields = {"model": model, "callbacks": callbacks, "arguments": list(arguments)}
        return train(SCRIPT.format(folder=str(SEEDED.parent), **fields))

    return write


@pytest.fixture
def inline(monkeypatch):
    """Run scripts in this process: a child's import of Lightning takes seconds."""
    own = importlib.import_module("lightning_gpuprof.cli.inspect")
    forget_compilations()
    for owner in (Trainer, pytest.importorskip("pytorch_lightning").Trainer):
        monkeypatch.setattr(owner, "__init__", owner.__init__)
    monkeypatch.setattr(torch.cuda, "synchronize", torch.cuda.synchronize)
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def wait(command):
        with redirect_stdout(sys.stderr):
            try:
                return child.main(command[3:])
            except ValueError:
                return 1

    monkeypatch.setattr(own, "run_child", wait)


def test_each_sync_of_a_script_is_a_row_and_joins_the_report_of_a_run(
    script, make_session, write_run, seeded_syncs, capfd
):
    run = write_run(make_session({"forward": 1_000_000, "backward": 1_000_000}))
    path = script("Seeded", callbacks="seeded_syncs.GradientWatcher()", arguments=["--lr", "1"])
    assert main(["inspect", "--json", "--steps", "2", "--into", run, path, "--lr", "1"]) == 1
    found = json.loads(capfd.readouterr().out)
    assert (found["sync_steps"], found["work_steps"]) == (2, 2)
    rows = sorted((row["line"], row["owner"]) for row in found["sites"])
    assert rows == seeded_syncs.expected()
    item = next(row for row in found["sites"] if row["source"].startswith("self.total"))
    assert item["per_step"] == 1
    assert item["replacement"].startswith("keep the value as a tensor")
    [finding] = [one for one in load_report(run).findings if one.id == "host-sync"]
    assert len(load_report(run).results.facts.sync_sites) == 10
    assert finding.places[0].line in [line for line, _ in rows]


@pytest.mark.parametrize("stages", [["validate"], ["fit", "test"]])
def test_a_run_that_did_not_end_with_a_fit_takes_no_result(
    make_session, write_run, train, capsys, stages
):
    sessions = [make_session({"forward": 1}, stage=stage) for stage in stages]
    run = write_run([record for session in sessions for record in session])
    assert main(["inspect", "--into", run, train("")]) == 2
    assert "this run did not end with a fit" in capsys.readouterr().err


def test_a_clean_script_gives_0(script, inline, capfd):
    path = script("Clean", callbacks="EarlyStopping('val_loss')")
    assert main(["inspect", path]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[:2] == [
        "No line of the training loop makes the host wait for the device (3 steps).",
        "",
    ]
    assert lines[2].startswith("A step makes ")
    assert "training_step, called once" in lines[3]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("raise ValueError('the script broke')", "failed with status 1"),
        ("print('no training here')", "made no Trainer"),
        ("from lightning.pytorch import Trainer; Trainer()", "ended without training"),
    ],
)
def test_a_script_that_fails_or_never_trains_gives_2(train, inline, capfd, source, said):
    assert main(["inspect", train(source)]) == 2
    assert said in capfd.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="the script finds its GPU here")
def test_a_script_for_a_gpu_is_looked_at_without_one_and_leaves_nothing_behind(
    tmp_path, train, inline, capfd, monkeypatch
):
    path = train(
        "from lightning.pytorch import Trainer\n"
        "from lightning.pytorch.demos.boring_classes import BoringModel\n"
        "Trainer(accelerator='gpu', devices=4, strategy='fsdp', precision='16-mixed').fit(\n"
        "    BoringModel())\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["inspect", path]) == 0
    assert "3 steps" in capfd.readouterr().out
    assert [file.name for file in tmp_path.iterdir()] == ["train.py"]


def test_a_script_of_lightning_cli_keeps_its_options_and_no_profile_is_made(
    tmp_path, train, inline, capfd
):
    pytest.importorskip("jsonargparse")
    path = train(
        "from lightning.pytorch.cli import LightningCLI\n"
        "from lightning.pytorch.demos.boring_classes import BoringDataModule, BoringModel\n"
        "LightningCLI(BoringModel, BoringDataModule, save_config_callback=None)\n"
    )
    logger = ["--trainer.logger=CSVLogger", f"--trainer.logger.save_dir={tmp_path / 'out'}"]
    callback = "--trainer.callbacks+=lightning_gpuprof.GpuProfCallback"
    assert main(["inspect", path, "fit", *logger, callback]) == 0
    said = capfd.readouterr()
    assert "3 steps" in said.out
    assert "[PROFILE]" not in said.out + said.err


def test_a_script_that_is_not_there_gives_2(capfd):
    assert main(["inspect", "nowhere.py"]) == 2
    assert "no script nowhere.py" in capfd.readouterr().err


def test_a_result_is_shown_by_line():
    site = SyncSite(
        file="train.py", line=7, function="f", source="loss.item()", owner="user",
        operation="item", count=6, steps_watched=3, blocked_ns=30_000,
    )  # fmt: skip
    place = CodePlace("train.py", 9, "g", "self.encoder(x)")
    found = Inspection(
        sync_steps=3,
        sites=(site,),
        work_steps=3,
        waste=(Waste("retained-graph", "graph kept", "drop it", place),),
        calls=(CallCount("train.py", 5, "f", 1, 1234),),
        calls_per_step=5678,
    )
    assert text(found).splitlines() == [
        "1 line of the training loop makes the host wait for a GPU (3 steps)",
        "",
        "train.py:7  item  by user  2 per step, 10 µs blocked per step",
        "    loss.item()",
        f"    -> {advice(site)}",
        "",
        "Needless work (3 steps)",
        "",
        "train.py:9  graph kept",
        "    self.encoder(x)",
        "    -> drop it",
        "",
        "A step makes 5,678 Python calls. By function of your own:",
        "     1,234 calls  train.py:5  f, called once",
    ]


def test_a_debug_mode_that_raises_is_said():
    assert "Host syncs were not looked for" in text(Inspection(syncs_raise=True))


def test_needless_work_is_named_with_its_line(train, inline, capfd):
    path = train(
        "from lightning.pytorch import Trainer\n"
        "from lightning.pytorch.demos.boring_classes import BoringModel\n"
        "class Retains(BoringModel):\n"
        "    def backward(self, loss):\n"
        "        loss.backward(retain_graph=True)\n"
        "Trainer(logger=False).fit(Retains())\n"
    )
    assert main(["inspect", path]) == 1
    assert "train.py:5  backward retains its graph" in capfd.readouterr().out


ENDLESS = """
import os, signal, sys
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset
from torch.utils.data import DataLoader

class Asks(BoringModel):
    def training_step(self, batch, batch_idx):
        print("pid", os.getpid(), file=sys.stderr, flush=True)
        signal.pause()

if __name__ == "__main__":
    Trainer(logger=False).fit(Asks(), DataLoader(RandomDataset(32, 64), num_workers=1))
"""


def test_ctrl_c_ends_the_script_and_its_workers(train):
    main_of = "from lightning_gpuprof.cli import entry; raise SystemExit(entry())"
    command = [sys.executable, "-c", main_of, "inspect", train(ENDLESS)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        script = next(int(line.split()[1]) for line in process.stderr if line.startswith("pid"))
        process.send_signal(signal.SIGINT)
        process.stderr.read()  # until nobody holds it any more: the script and its workers
        assert process.wait() == 130
    with pytest.raises(ProcessLookupError):
        os.killpg(script, 0)


@pytest.mark.parametrize("logger", ["TensorBoardLogger", "CSVLogger"])
def test_an_inspection_leaves_nothing_in_the_folder_of_a_logger(
    script, train, inline, tmp_path, monkeypatch, logger
):
    monkeypatch.chdir(tmp_path)
    logs = tmp_path / "logs"
    (logs / "mine" / "version_0").mkdir(parents=True)
    made = f"logger=loggers.{logger}({str(logs)!r}, name='mine')"
    text = Path(script("Seeded")).read_text(encoding="utf-8").replace("logger=False", made)
    path = train("from lightning.pytorch import loggers\n" + text)
    before = sorted(tmp_path.rglob("*"))
    assert main(["inspect", "--steps", "1", path]) == 1
    assert [one for one in sorted(tmp_path.rglob("*")) if one.suffix != ".pyc"] == before
