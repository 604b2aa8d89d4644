"""`plan` of a user's training program, which runs up to its first batch in a child process."""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.runtime.launch import run_child
from lightning_gpuprof.trials.plan import Plan
from lightning_gpuprof.trials.processes import ENVIRONMENT

RESULT_FILE = "result.json"
CHILD = "lightning_gpuprof.trials.plan_child"
_EAGER = {"TORCHDYNAMO_DISABLE": "1"}
"""Makes `torch.compile` return what it was given: tensors without data cannot be compiled for."""


class PlanRequest(msgspec.Struct):
    """The task of a child. `None` for a setting of the program itself."""

    folder: str
    vram_bytes: list[int]
    batch_sizes: list[int] | None = None
    precision: str | None = None


class PlanResult(msgspec.Struct):
    """How far a child has come, and its plan."""

    trainers: int = 0
    """How many Trainers the program has made."""
    reached_training: bool = False
    plan: Plan | None = None
    error: str | None = None
    """Why nothing could be planned, as a sentence for the user."""
    raised: str | None = None
    """The exception that has ended the program, on one line."""


def plan_program(
    program: Sequence[str],
    *,
    vram_bytes: Sequence[int],
    batch_sizes: Sequence[int] | None = None,
    precision: str | None = None,
) -> Plan:
    """Plan for the model and the train loader that a program passes to `Trainer.fit`.

    The program runs up to its first batch, on the CPU, without validation, and writes only to a
    temporary folder.

    Args:
        program: A script with its arguments, or `-m` and a module.
        vram_bytes: Memory of the cards to plan for.
        batch_sizes: Batch sizes whose memory is predicted. By default the program's own, half of
            it, and twice as much.
        precision: The precision as Lightning's Trainer names it, by default the program's own.

    Raises:
        ConfigError: The program fails, does not train, or its memory cannot be predicted.
    """
    name = " ".join(program[:2] if program[0] == "-m" else program[:1])
    with tempfile.TemporaryDirectory(prefix="gpuprof-plan-", ignore_cleanup_errors=True) as folder:
        sizes = list(batch_sizes) if batch_sizes else None
        request = PlanRequest(folder, list(vram_bytes), sizes, precision)
        command = [sys.executable, "-m", CHILD, msgspec.json.encode(request).decode(), *program]
        status = run_child(command, {**ENVIRONMENT, **_EAGER, "TMPDIR": folder})
        file = Path(folder, RESULT_FILE)
        result = PlanResult()
        if file.exists():
            result = msgspec.json.decode(file.read_bytes(), type=PlanResult)
    if result.plan is None:
        raise ConfigError(_why_not(name, result, status))
    return result.plan


def _why_not(name: str, result: PlanResult, status: int) -> str:
    if result.error is not None:
        return f"{name}: {result.error}"
    if result.reached_training and result.raised is None:
        return (
            f"A training step of {name} on tensors without data failed, and the script caught the "
            "exception. Let it raise, or pass --model."
        )
    if result.reached_training:
        return (
            f"A training step of {name} on tensors without data failed: {result.raised}. The "
            "traceback above names the line. Pass --model with a model that avoids it."
        )
    if result.raised is not None:
        return (
            f"{name} raised before its first training batch: {result.raised}. Its messages are "
            "above. Run it by itself until it trains."
        )
    if status:
        return (
            f"{name} ended with status {status} before its first training batch; its messages are "
            "above. Pass its arguments after its path and those of `plan` before it, and run it by "
            "itself until it trains."
        )
    if not result.trainers:
        return (
            f"{name} made no Trainer of Lightning, so no training can be planned. Pass the script "
            "that calls Trainer.fit, or --model with a function that returns the model."
        )
    return (
        f"{name} ended without training a batch. It must call Trainer.fit with a train loader when "
        "it is run as a script; pass its arguments after its path."
    )
