"""Where a rule knows several changes, effort and risk are those of the change that it proposes."""

import pytest
from rule_cases import MS

from lightning_gpuprof.findings.compile_advice import remedy
from lightning_gpuprof.findings.model import Horizon
from lightning_gpuprof.findings.rules.slow_python import KINDS
from lightning_gpuprof.records.lines import GuardCause
from lightning_gpuprof.records.schema import Device, Loader
from lightning_gpuprof.trials.change import changes

WORK = {"forward": 6 * MS, "callbacks": 4 * MS}


@pytest.mark.parametrize(
    ("name", "difficulty", "risk"),
    [
        ("TQDMProgressBar", "one setting", "its output comes less often"),
        ("EMAWeightAveraging", "one setting, or a few lines", "the average is coarser"),
        ("Mine", "a condition in the callback", "what changes weights or gradients must stay"),
    ],
)
def test_a_setting_of_a_callback_is_less_than_its_code(judge, name, difficulty, risk):
    (finding,) = judge("slow-callback", WORK, parts={f"callbacks/{name}": 4 * MS})
    assert finding.effort.difficulty == difficulty
    assert risk in finding.effort.risk


@pytest.mark.parametrize(
    ("asked", "logs_ns", "difficulty"),
    [(1, 0, "one argument of the Trainer"), (50, 4 * MS, "a condition around the calls")],
)
def test_a_condition_around_calls_is_no_argument(judge, asked, logs_ns, difficulty):
    phases = {"forward": 6 * MS, "logging": 4 * MS}
    parts = {"logging/self.log": logs_ns, "logging/CSVLogger": 4 * MS - logs_ns}
    trainer = {"log_every_n_steps": asked, "loggers": ["CSVLogger"]}
    (finding,) = judge("slow-logging", phases, parts=parts, trainer=trainer)
    assert finding.effort.difficulty == difficulty


def test_pinned_memory_is_one_argument_and_less_of_it_is_not(judge):
    phases = {"forward": 6 * MS, "host_to_device": 4 * MS}
    device = Device(type="cuda")
    for pinned, difficulty in ((False, "one argument of the DataLoader"), (True, "what a batch")):
        loader = Loader(num_workers=0, pin_memory=pinned)
        finding = judge("slow-host-to-device-copy", phases, device=device, loader=loader)
        assert finding.effort.difficulty.startswith(difficulty)


def test_clipping_in_one_call_and_moving_work_are_two_efforts():
    clip, python = KINDS["clip"].effort, KINDS["python"].effort
    assert (clip.horizon, python.horizon) == (Horizon.QUICK, Horizon.MEDIUM)


def test_compiling_for_any_size_is_one_argument_and_padding_is_not():
    size = remedy(GuardCause.SIZE, subject="x.size(0)", reason="")
    condition = remedy(GuardCause.SIZE_CONDITION, subject="x.size(0)", reason="x.size(0) > 4")
    assert size.effort.difficulty == "one argument"
    assert condition.effort.risk == "padding computes more"
    assert remedy(GuardCause.OTHER, subject="", reason="x").effort.horizon is Horizon.MEDIUM


def test_every_change_to_try_says_what_it_alters_or_nothing():
    assert all(change.alters for change in changes().values() if change.ceiling)
