import json

import pytest

from lightning_gpuprof.cli import main

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
