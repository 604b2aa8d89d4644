import sys
from dataclasses import dataclass

import pytest
from lightning.pytorch.cli import LightningCLI
from lightning.pytorch.demos.boring_classes import BoringModel

from lightning_gpuprof import GpuProfCallback, GpuProfConfig, ProfileConfig, ProfilerSchedule
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import ProfilerCycle


@pytest.mark.parametrize("given", ["train.yaml", 3])
def test_what_is_no_configuration_is_refused_with_the_right_call(given):
    with pytest.raises(ConfigError, match=r"from_yaml\(path\)"):
        GpuProfCallback(given)


def test_a_config_and_settings_are_the_same():
    assert GpuProfCallback(window=7).config == GpuProfCallback(GpuProfConfig(window=7)).config


def test_a_config_and_settings_beside_it_are_refused():
    with pytest.raises(ConfigError, match="Pass either"):
        GpuProfCallback(GpuProfConfig(wait=4), window=5)


def test_yaml_sets_it_and_null_switches_it_off(fit, tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("profiling: {window: 3, trace: false}")
    assert GpuProfCallback.from_yaml(path).config.window == 3

    path.write_text("profiling: null")
    trainer = fit(GpuProfCallback.from_yaml(path))

    assert not list((tmp_path / "lightning_logs").rglob("rank0.jsonl"))
    assert type(trainer.profiler).__name__ == "PassThroughProfiler"


def test_lightning_cli_takes_it_with_its_settings(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["train.py"])
    cli = LightningCLI(
        BoringModel,
        args=[
            "fit",
            f"--trainer.default_root_dir={tmp_path}",
            "--trainer.max_steps=3",
            "--trainer.limit_val_batches=0",
            "--trainer.enable_progress_bar=false",
            "--trainer.callbacks+=lightning_gpuprof.GpuProfCallback",
            "--trainer.callbacks.wait=1",
            "--trainer.callbacks.active=1",
            "--trainer.callbacks.trace=false",
            "--trainer.callbacks.metrics=[loss]",
        ],
    )

    (callback,) = [c for c in cli.trainer.callbacks if isinstance(c, GpuProfCallback)]
    assert (callback.config.wait, callback.config.active) == (1, 1)
    assert callback.config.metrics == ("loss",)
    assert read_run(cli.trainer.log_dir)[0].sessions[0].steps == 3


@pytest.mark.parametrize(("ranks", "traces"), [(None, 1), ((1,), 0)])
def test_ranks_that_write_traces_are_chosen_by_a_schedule_beside_it(fit, ranks, traces):
    schedule = ProfilerSchedule(wait=1, warmup=0, active=2, ranks=ranks)
    trainer = fit(GpuProfCallback(trace=False, report=False), schedule)
    (session,) = read_run(trainer.log_dir)[0].sessions
    assert len(session.all(ProfilerCycle)) == traces


def test_none_is_off(fit, tmp_path):
    trainer = fit(GpuProfCallback(None))

    assert GpuProfCallback(None).config is None
    assert not list(tmp_path.rglob("rank0.jsonl"))
    assert trainer.state.finished


class SwitchedCLI(LightningCLI):
    """As in docs/reference/settings.md."""

    def add_arguments_to_parser(self, parser):
        parser.add_argument("--profiling", type=GpuProfConfig | None, default=GpuProfConfig())
        parser.add_lightning_class_args(GpuProfCallback, "gpuprof")
        parser.link_arguments("profiling", "gpuprof.config")


@pytest.mark.parametrize(
    ("arguments", "wait"), [(["--profiling.wait=2"], 2), (["--profiling=null"], "off"), ([], None)]
)
def test_lightning_cli_sets_it_or_switches_it_off(tmp_path, monkeypatch, arguments, wait):
    monkeypatch.setattr(sys, "argv", ["train.py"])
    cli = SwitchedCLI(
        BoringModel,
        run=False,
        trainer_defaults={"default_root_dir": tmp_path, "max_steps": 2},
        args=arguments,
    )

    (callback,) = [c for c in cli.trainer.callbacks if isinstance(c, GpuProfCallback)]
    assert ("off" if callback.config is None else callback.config.wait) == wait


def test_a_section_without_a_unit_says_once_that_it_counts_steps(tmp_path, shown):
    path = tmp_path / "config.yaml"
    path.write_text("profiling: {wait: 3, active: 3}")
    GpuProfCallback.from_yaml(path)
    path.write_text("profiling: {unit: epoch, wait: 3}")
    GpuProfCallback.from_yaml(path)
    path.write_text("profiling: {window: 9}")
    GpuProfCallback.from_yaml(path)

    (line,) = shown()
    assert "wait: 3, active: 3 count steps. For epochs, add `unit: epoch`." in line


def test_tyro_takes_the_section_as_a_subcommand(fit):
    tyro = pytest.importorskip("tyro")

    @dataclass
    class Settings:
        epochs: int = 1
        profiling: ProfileConfig | None = None

    def parsed(*arguments):
        return tyro.cli(Settings, args=["--epochs", "11", *arguments]).profiling

    asked = ("--profiling.wait", "3", "--profiling.active", "1", "--profiling.no-with-stack")
    config = parsed("profiling:profile-config", *asked, "--profiling.record-shapes")
    callback = GpuProfCallback(config)
    assert callback.config.unit == "epoch"
    assert callback.config.active == 1
    assert parsed() is None
