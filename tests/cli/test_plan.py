import json

import pytest

from lightning_gpuprof.cli import main
from lightning_gpuprof.memory.batch_size import PeakLine
from lightning_gpuprof.trials.plan import CardPlan, Plan
from lightning_gpuprof.trials.predict import PlanPoint

MODEL = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(1024, 1024)

    def forward(self, x):
        return self.linear(x).square().mean()


def make():
    print("chatter on stdout")
    return Net(), lambda size: torch.randn(size, 1024)


"""


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "net.py"
    path.write_text(MODEL)
    return path


def test_a_plan_is_printed_as_json(model, capfd):
    command = ["plan", "--model", f"{model}:make", "--vram", "1GiB"]
    assert main([*command, "--batch-sizes", "8,16", "--json"]) == 0
    printed, said = capfd.readouterr()
    assert "chatter on stdout" in said
    plan = json.loads(printed)
    parameters = (1024 * 1024 + 1024) * 4
    assert plan["measured"] is False
    assert plan["points"][0]["exact_bytes"]["optimizer_state"] == 2 * parameters
    assert plan["allocated"]["per_sample_bytes"] > 0
    (card,) = plan["cards"]
    assert 0.7 < card["vram_frac"] <= 0.8
    assert card["batch_size"] % 8 == 0


def test_a_plan_as_text_says_that_it_is_a_prediction(model, capfd):
    sizes = ["--vram", "1GiB", "--vram", "2MiB"]
    assert main(["plan", "--model", f"{model}:make", *sizes]) == 0
    printed = capfd.readouterr().out
    assert "Predicted, not measured: 32-true, AdamW" in printed
    assert "1.00 GiB" in printed
    assert printed.count("none fits") == 1
    assert "  The CUDA context" in printed


def test_another_function_is_refused_with_the_contract(model, capfd):
    model.write_text("def model(): ...")
    assert main(["plan", "--model", f"{model}:make"]) == 2
    assert "defines no function 'make'. make() takes nothing" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--vram", "much"], "'much' is not a size"),
        (["--vram", "80"], "'80' is not a size"),
        (["--batch-sizes", "8,x"], "invalid whole_numbers value: '8,x'"),
        (["--model", "net"], "does not name a function"),
        (["--model", ":make"], "does not name a function"),
        (["--model", "no_such_module_here:make"], "'no_such_module_here' cannot be imported"),
        (["--model", "absent.py:make"], "there is no file absent.py"),
    ],
)
def test_what_cannot_be_planned_is_said_before_anything_is_run(arguments, message, capfd):
    try:
        status = main(["plan", "--model", "absent.py:make", *arguments])
    except SystemExit as refused:
        status = refused.code
    assert status == 2
    said = capfd.readouterr().err
    assert message in said
    assert "Traceback" not in said


@pytest.fixture
def planned(monkeypatch, tmp_path):
    """What the command asks for; the answer is capped in four ways."""
    asked = {}
    cards = (
        CardPlan(8 * 2**30, 640, 2**30, 640, 0.125, "samples", "samples"),
        CardPlan(16 * 2**30, 512, 2**30, 2**20, 0.0625, None, "search"),
        CardPlan(24 * 2**30, 256, 2**30, 300, 0.04, "tries"),
        CardPlan(32 * 2**30, None, None, None, None, "tries"),
        CardPlan(48 * 2**30, 128, 2**30, 140, 0.02),
    )
    exact = dict.fromkeys(("parameters", "gradients", "optimizer_state", "activations"), 0)
    point = PlanPoint(8, 0, 0, 0, "backward", exact, "Adam")
    plan = Plan("bf16-mixed", (point,), PeakLine(0, 1), cards, samples=640, own_batch_size=32)

    def plan_program(program, **options):
        asked.update(options, program=program)
        return plan

    monkeypatch.setattr("lightning_gpuprof.trials.plan_program.plan_program", plan_program)
    (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)
    return asked


def test_a_batch_size_that_memory_does_not_limit_is_shown_as_a_cap(planned, capsys):
    assert main(["plan", "train.py"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if " GiB  " in line]
    assert "at least 640: no more samples" in rows[0]
    assert "largest is a cap: the search ends there" in rows[1]
    assert "at least 256: the search has stopped" in rows[2]
    assert "none of the sizes tried fits" in rows[3]
    assert rows[4].rstrip().endswith("140")


def test_caps_are_in_the_json(planned, capsys):
    assert main(["plan", "--json", "train.py"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [card["batch_size_cap"] for card in document["cards"]][:2] == ["samples", None]
    assert (document["samples"], document["own_batch_size"]) == (640, 32)


def test_a_script_has_its_own_batch_sizes_and_precision_unless_others_are_given(planned, capsys):
    assert main(["plan", "train.py", "fit", "--config", "c.yaml"]) == 0
    assert planned["program"] == ["train.py", "fit", "--config", "c.yaml"]
    assert (planned["batch_sizes"], planned["precision"]) == (None, None)
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.startswith("train.py fit --config c.yaml: Predicted, not measured")
    assert "batch size of the script 32, samples of its dataset 640" in printed
    options = ["--batch-sizes", "4,8", "--precision", "16-mixed", "--vram", "1GiB"]
    assert main(["plan", *options, "--", "python", "train.py", "--vram", "x"]) == 0
    assert planned == {
        "program": ["train.py", "--vram", "x"],
        "vram_bytes": [2**30],
        "batch_sizes": [4, 8],
        "precision": "16-mixed",
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "for a script or for --model, and neither was given. Pass the script"),
        (["--model", "m.py:make", "train.py"], "for a script or for --model, and both were given"),
        (["absent.py"], "There is no script absent.py. Pass the path of a Python file."),
    ],
)
def test_a_plan_is_for_a_script_or_for_a_function(planned, arguments, message, capsys):
    assert main(["plan", *arguments]) == 2
    assert message in capsys.readouterr().err
