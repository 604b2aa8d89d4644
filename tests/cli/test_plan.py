import json
import sys

import pytest

from lightning_gpuprof.cli import main
from lightning_gpuprof.trials import child
from lightning_gpuprof.trials.serve import answer

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
def inline(monkeypatch):
    """Answer in this process: a child's import of torch takes seconds."""
    monkeypatch.setattr("lightning_gpuprof.cli.plan.ask", lambda request, kind: answer(request))


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "net.py"
    path.write_text(MODEL)
    return path


def test_a_plan_is_printed_as_json(model, inline, capfd):
    command = ["plan", "--model", f"{model}:make", "--vram", "1GiB", "--optimizer", "adamw"]
    command += ["--batch-sizes", "8,16"]
    assert main([*command, "--json"]) == 0
    printed = capfd.readouterr().out
    plan = json.loads(printed[printed.index("{") :])
    parameters = (1024 * 1024 + 1024) * 4
    assert plan["measured"] is False
    assert plan["points"][0]["exact_bytes"]["optimizer_state"] == 2 * parameters
    assert plan["allocated_fit"]["linear"] is True
    (card,) = plan["cards"]
    assert 0.6 < card["vram_frac"] <= 0.8
    assert card["batch_size"] % 8 == 0


def test_a_plan_as_text_says_that_it_is_a_prediction(model, inline, capfd):
    assert main(["plan", "--model", f"{model}:make", "--vram", "1GiB"]) == 0
    printed = capfd.readouterr().out
    assert "Predicted, not measured: 32-true, AdamW" in printed
    assert "1.00 GiB" in printed
    assert "- The CUDA context" in printed


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def make(width): ...", "make() needs arguments: missing a required argument: 'width'."),
        ("def model(): ...", "defines no function 'make'."),
    ],
)
def test_another_function_is_refused_with_the_contract(model, inline, capfd, text, said):
    model.write_text(text)
    assert main(["plan", "--model", f"{model}:make"]) == 2
    assert said in capfd.readouterr().err


def test_a_model_that_prints_and_fails_is_told_by_the_users_own_lines(model, capfd):
    model.write_text(MODEL.replace("torch.randn(size, 1024)", "torch.randn(size, 1025)"))
    assert main(["plan", "--model", f"{model}:make"]) == 2
    out, said = capfd.readouterr()
    assert (out, "chatter on stdout" in said) == ("", True)
    assert "self.linear(x)" in said
    assert "RuntimeError: " in said
    assert "fake_tensor.py" not in said
    assert "step.py" not in said


def test_a_failing_model_shows_its_own_traceback(monkeypatch, capfd):
    failing = [sys.executable, "-c", "raise RuntimeError('their own error')"]
    monkeypatch.setattr(child, "COMMAND", failing)
    assert main(["plan", "--model", "net.py:make"]) == 2
    said = capfd.readouterr().err
    assert "RuntimeError: their own error" in said
    assert "status 1" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "net"], "names no function"),
        (["--model", ":make"], "names no function"),
        (["--model", "no_such_module_here:make"], "cannot import 'no_such_module_here'"),
        (["--model", "absent.py:make"], "there is no file absent.py"),
    ],
)
def test_a_model_that_is_not_there_is_said_in_one_line(arguments, message, inline, capfd):
    assert main(["plan", *arguments]) == 2
    said = capfd.readouterr().err
    assert message in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--card", "abacus"], "no datasheet row of that name"),
        (["--vram", "much"], "'much' is not a size"),
        (["--vram", "80"], "'80' is not a size"),
        (["--batch-sizes", "8,x"], "'x' is not a whole number"),
        (["--target", "80"], "'80' is not a band"),
        (["--target", "0.8-0.6"], "'0.8-0.6' is not a band of memory, the low end first"),
        (["--target", "0.0-0.6"], "'0.0-0.6' is not a band"),
    ],
)
def test_a_bad_argument_is_echoed_before_anything_is_run(arguments, message, capfd):
    try:
        status = main(["plan", "--model", "absent.py:make", *arguments])
    except SystemExit as refused:
        status = refused.code
    assert status == 2
    assert message in capfd.readouterr().err


@pytest.mark.parametrize(
    ("cards", "workspace_bytes"),
    [(["a40"], 2 * 8_519_680), (["h200 nvl"], 2 * 2**25), (["a40", "h200 nvl"], 2 * 2**25)],
)
def test_cublas_workspaces_are_those_of_the_cards_named(
    cards, workspace_bytes, model, inline, capfd
):
    named = [part for card in cards for part in ("--card", card)]
    assert main(["plan", "--model", f"{model}:make", *named, "--json"]) == 0
    printed = capfd.readouterr().out
    plan = json.loads(printed[printed.index("{") :])
    assert {one["kind_bytes"]["workspace"] for one in plan["points"]} == {workspace_bytes}
    assert f"workspaces of {workspace_bytes / 2**21:.1f} MiB" in plan["assumptions"][0]


def test_a_plan_in_a_child_ends_with_the_threads_that_the_model_left(model, capfd):
    waits = "import threading\nthreading.Thread(target=threading.Event().wait).start()\n"
    model.write_text(waits + MODEL)
    assert main(["plan", "--model", f"{model}:make", "--vram", "1GiB", "--json"]) == 0
    printed = capfd.readouterr()
    assert json.loads(printed.out)["cards"][0]["batch_size"] % 8 == 0
    assert "chatter on stdout" in printed.err


def test_a_card_is_found_by_a_part_of_its_name(model, inline, capfd):
    assert main(["plan", "--model", f"{model}:make", "--card", "l40s", "--json"]) == 0
    printed = capfd.readouterr().out
    (card,) = json.loads(printed[printed.index("{") :])["cards"]
    assert card["vram_bytes"] == 48 * 10**9
    assert "L40S" in card["card"]
