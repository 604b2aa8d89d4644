"""Plans of training scripts. Most scripts run in this process: a child's imports take seconds."""

import sys
from contextlib import redirect_stdout

import msgspec
import pytest
from lightning.pytorch import Trainer
from lightning.pytorch.utilities.exceptions import MisconfigurationException

from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.trials import plan_child, plan_program
from lightning_gpuprof.trials.plan_program import PlanRequest

GIB = 2**30
MODEL = """
import sys
import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader, TensorDataset


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1000, 1000)

    def training_step(self, batch):
        x, y = batch
        loss = (self.layer(x) - y).square().mean()
        self.log("loss", loss)
        self.log_dict({"epoch": float(self.trainer.current_epoch)})
        return loss

    def configure_optimizers(self):
        steps = self.trainer.estimated_stepping_batches
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        return [optimizer], [torch.optim.lr_scheduler.OneCycleLR(optimizer, 1, total_steps=steps)]


def loader(samples=640, **options):
    data = TensorDataset(torch.zeros(samples, 1000), torch.zeros(samples, 1000))
    return DataLoader(data, **{"batch_size": 32, "shuffle": True, **options})


"""
CLI = """
from lightning.pytorch.cli import LightningCLI
from lightning.pytorch.demos.boring_classes import BoringDataModule, BoringModel
LightningCLI(BoringModel, BoringDataModule)
"""


@pytest.fixture
def script(write_text, tmp_path, monkeypatch):
    """Write a script that ends with these lines; returns its path."""
    monkeypatch.chdir(tmp_path)
    return lambda lines: str(write_text(MODEL + lines, name="planned_script.py"))


@pytest.fixture
def inline(monkeypatch):
    """Run children in this process, and return how they ended."""
    for owner in (Trainer, pytest.importorskip("pytorch_lightning").Trainer):
        monkeypatch.setattr(owner, "__init__", owner.__init__)
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def run_child(command, environment):
        request = msgspec.json.decode(command[3], type=PlanRequest)
        with redirect_stdout(sys.stderr):
            try:
                plan_child.run(request, command[4:])
            except SystemExit as ended:
                return ended.code
            except (ArithmeticError, RuntimeError, MisconfigurationException):
                return 1
        return 0

    monkeypatch.setattr(plan_program, "run_child", run_child)


def planned(path, *arguments, vram=(24 * GIB,), **options):
    return plan_program.plan_program([path, *arguments], vram_bytes=vram, **options)


@pytest.mark.usefixtures("inline")
def test_model_loader_and_precision_are_those_of_the_scripts_fit(script):
    path = script("""
assert sys.argv[1:] == ["--lr", "1"]
Trainer(max_epochs=3, accelerator="gpu", devices=8, strategy="ddp", precision="bf16-mixed").fit(
    Net(), loader()
)
raise SystemExit("a plan goes no further than the first batch")
""")
    plan = planned(path, "--lr", "1")
    assert plan.precision == "bf16-mixed"
    assert plan.own_batch_size == 32
    assert [point.batch_size for point in plan.points[:3]] == [16, 32, 64]
    parameters = (1000 * 1000 + 1000) * 4
    assert plan.points[0].exact_bytes["parameters"] == parameters
    assert plan.points[0].exact_bytes["optimizer_state"] == parameters  # OneCycleLR cycles momentum
    assert plan.points[0].optimizer == "SGD"
    several = "Trainer(strategy='ddp', devices=8) shards or adds is not counted."
    assert any(note.endswith(several) for note in plan.assumptions)


@pytest.mark.usefixtures("inline")
def test_the_largest_batch_is_capped_by_the_dataset(script):
    (card,) = planned(script("Trainer().fit(Net(), loader(samples=637))")).cards
    assert (card.batch_size, card.batch_size_cap) == (637, "samples")
    assert (card.largest_batch_size, card.largest_batch_size_cap) == (637, "samples")


@pytest.mark.usefixtures("inline")
@pytest.mark.parametrize("options", ["", "devices=1, strategy='auto'", "devices='1', num_nodes=1"])
def test_one_device_needs_no_note(script, options):
    plan = planned(script(f"Trainer({options}).fit(Net(), loader())"), vram=())
    assert not any("shards or adds" in note for note in plan.assumptions)


@pytest.mark.usefixtures("inline")
def test_the_same_batches_by_make_are_planned_alike(script):
    """The script's way gives the bytes of a model and batches that are made by hand."""
    path = script("""
def make():
    return Net2(), lambda size: [torch.zeros(size, 1000), torch.zeros(size, 1000)]

class Net2(Net):
    def training_step(self, batch, batch_idx):
        return (self.layer(batch[0]) - batch[1]).square().mean()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())

if __name__ == "__main__":
    Trainer().fit(Net2(), loader())
""")
    from lightning_gpuprof.trials.model import load_function
    from lightning_gpuprof.trials.plan import plan

    by_script = planned(path, vram=(), batch_sizes=[8, 16])
    by_make = plan(load_function(f"{path}:make"), batch_sizes=[8, 16])
    assert by_script.points == by_make.points


@pytest.mark.usefixtures("inline")
def test_a_collate_fn_may_read_values_of_the_samples(script):
    lines = """
def collate(samples):
    longest = max(int(x.count_nonzero()) for x, _ in samples)
    x, y = (torch.stack(column) for column in zip(*samples))
    return [x[:, :1000 + longest], y]

Trainer().fit(Net(), loader(collate_fn={}))
"""
    with_values = planned(script(lines.format("collate")), vram=(), batch_sizes=[8, 16])
    without = planned(script(lines.format("None")), vram=(), batch_sizes=[8, 16])
    sizes = [
        [(point.exact_bytes, point.peak_reserved_bytes) for point in plan.points]
        for plan in (with_values, without)
    ]
    assert sizes[0] == sizes[1]


@pytest.mark.usefixtures("inline")
def test_own_arguments_come_before_those_of_the_script(script):
    path = script("Trainer(precision='bf16-true').fit(Net(), loader())")
    plan = planned(path, vram=(), batch_sizes=[4, 8], precision="32-true")
    assert plan.precision == "32-true"
    assert [point.batch_size for point in plan.points] == [4, 8]


@pytest.mark.usefixtures("inline")
@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("", "made no Trainer of Lightning, so no training can be planned. Pass the script that"),
        ("Trainer()", "ended without training a batch. It must call Trainer.fit with a train"),
        ("sys.exit(2)", "ended with status 2 before its first training batch; its messages are"),
        ("1 / 0", "raised before its first training batch: ZeroDivisionError: division by zero"),
        ("Trainer().fit(Net())", "raised before .*train_dataloader.* Run it by itself"),
        (
            "Trainer(precision='bf16-true').fit(Net(), loader())",
            "precision='bf16-true'.* Pass --precision bf16-mixed",
        ),
        (
            "Net.training_step = lambda self, batch: self.layer(batch[0]).sum().numpy()\n"
            "Trainer().fit(Net(), loader())",
            "on tensors without data failed: .* Pass --model",
        ),
        (
            "Net.training_step = lambda self, batch: 1 / 0\n"
            "try:\n"
            "    Trainer().fit(Net(), loader())\n"
            "except ZeroDivisionError:\n"
            "    pass",
            "failed, and the script caught the exception. Let it raise, or pass --model",
        ),
    ],
)
def test_a_script_that_cannot_be_planned_is_refused_with_the_remedy(script, lines, message):
    with pytest.raises(ConfigError, match=message):
        planned(script(lines))


@pytest.mark.usefixtures("inline")
def test_a_warning_that_differs_in_the_batch_size_is_shown_once(script):
    path = script("""
import warnings
class Warning(Net):
    def training_step(self, batch, batch_idx):
        warnings.warn(f"batch of {len(batch[0])}")
        return torch.nn.functional.mse_loss(self.layer(batch[0]), batch[1][:, None])

Trainer().fit(Warning(), loader())
""")
    with pytest.warns(UserWarning, match="batch of") as shown:
        planned(path)
    texts = [str(warning.message) for warning in shown]
    for text in ("batch of", "Using a target size"):
        assert sum(text in shown_text for shown_text in texts) == 1
    assert not any("self.log" in text for text in texts)


def test_a_program_of_lightning_cli_is_planned_in_a_child(write_text, tmp_path, monkeypatch):
    pytest.importorskip("jsonargparse", reason="LightningCLI needs jsonargparse")
    monkeypatch.chdir(tmp_path)
    path = str(write_text(CLI, name="train_cli.py"))
    write_text("trainer: {max_epochs: 1, accelerator: gpu, precision: 16-mixed}", name="c.yaml")
    plan = planned(path, "fit", "--config", "c.yaml")
    assert plan.precision == "16-mixed"
    assert plan.points[0].exact_bytes["parameters"] == (32 * 2 + 2) * 4
    assert plan.cards[0].batch_size_cap == "samples"
    assert plan.samples == 64
    assert sorted(file.name for file in tmp_path.iterdir()) == ["c.yaml", "train_cli.py"]


def test_a_missing_config_names_the_programs_own_message(write_text, tmp_path, monkeypatch, capfd):
    pytest.importorskip("jsonargparse", reason="LightningCLI needs jsonargparse")
    monkeypatch.chdir(tmp_path)
    path = str(write_text(CLI, name="train_cli.py"))
    with pytest.raises(ConfigError, match=r"ended with status 2 .* Pass its arguments after"):
        planned(path, "fit", "--config", "absent.yaml")
    assert "absent.yaml" in capfd.readouterr().err
