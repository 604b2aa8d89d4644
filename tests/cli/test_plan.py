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


def broken():
    raise RuntimeError("the user's own error")
"""


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "net.py"
    path.write_text(MODEL)
    return path


def test_a_plan_is_printed_as_json_and_as_a_table(model, capfd):
    command = ["plan", "--model", f"{model}:make", "--vram", "1GiB", "--optimizer", "adamw"]
    assert main([*command, "--json"]) == 0
    plan = json.loads(capfd.readouterr().out)
    parameters = (1024 * 1024 + 1024) * 4
    assert plan["measured"] is False
    assert plan["points"][0]["exact_bytes"]["optimizer_state"] == 2 * parameters
    assert plan["allocated_fit"]["linear"] is True
    (card,) = plan["cards"]
    assert 0.6 < card["vram_frac"] <= 0.8
    assert card["batch_size"] % 8 == 0


def test_a_plan_as_text_says_that_it_is_a_prediction(model, capfd):
    assert main(["plan", "--model", f"{model}:make", "--vram", "1GiB"]) == 0
    printed = capfd.readouterr().out
    assert printed.startswith("Predicted, not measured: 32-true, AdamW")
    assert "1.00 GiB" in printed
    assert "- The CUDA context" in printed


def test_a_failing_model_shows_its_own_traceback(model, capfd):
    assert main(["plan", "--model", f"{model}:broken"]) == 2
    said = capfd.readouterr().err
    assert "RuntimeError: the user's own error" in said
    assert "status 1" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "net"], "names no function"),
        (["--model", "no_such_module_here:make"], "cannot import 'no_such_module_here'"),
        (["--model", "absent.py:make"], "there is no file absent.py"),
    ],
)
def test_a_model_that_is_not_there_is_said_in_one_line(arguments, message, capfd):
    assert main(["plan", *arguments]) == 2
    said = capfd.readouterr().err
    assert message in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--card", "abacus"], "no datasheet row of that name"),
        (["--vram", "much"], "'much' is not a size"),
        (["--batch-sizes", "8,x"], "'x' is not a whole number"),
        (["--target", "80"], "'80' is not a band"),
    ],
)
def test_a_bad_argument_is_echoed_before_anything_is_run(arguments, message, capfd):
    assert main(["plan", "--model", "absent.py:make", *arguments]) == 2
    assert message in capfd.readouterr().err


def test_a_card_is_found_by_a_part_of_its_name(model, capfd):
    assert main(["plan", "--model", f"{model}:make", "--card", "l40s", "--json"]) == 0
    (card,) = json.loads(capfd.readouterr().out)["cards"]
    assert card["vram_bytes"] == 48 * 10**9
    assert "L40S" in card["card"]
