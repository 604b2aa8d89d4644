from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from lightning_gpuprof.callbacks.gpuprof import GpuProfCallback
from lightning_gpuprof.callbacks.phase_timer import PhaseTimer
from lightning_gpuprof.config import GpuProfConfig
from lightning_gpuprof.errors import ConfigError

DOCUMENTED = """
model:
  width: 128
profiling:
  unit: epoch
  wait: 3
  warmup: 1
  active: 3
  repeat: 1
  record_shapes: true
  profile_memory: true
  with_stack: false
"""


def test_the_documented_section_is_read_and_other_sections_are_the_users(write_text):
    config = GpuProfConfig.from_yaml(write_text(DOCUMENTED))

    assert config == GpuProfConfig(
        unit="epoch", wait=3, warmup=1, active=3, repeat=1, profile_memory=True
    )


def test_yaml_and_config_are_the_same(write_text):
    config = GpuProfConfig(wait=5, metrics=("loss", "kl"), log_dir="x", overhead_budget=0.01)

    text = yaml.safe_dump({"profiling": config.to_dict()})
    assert GpuProfConfig.from_yaml(write_text(text)) == config


def test_a_path_is_as_good_as_its_text(tmp_path):
    assert GpuProfConfig(log_dir=tmp_path).log_dir == str(tmp_path)


def test_null_is_off(write_text):
    assert GpuProfConfig.from_yaml(write_text("profiling: null")) is None


@pytest.mark.parametrize("text", ["", "model: {}"])
def test_without_the_section_the_defaults_hold(write_text, text):
    assert GpuProfConfig.from_yaml(write_text(text)) == GpuProfConfig()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("profiling: {wiat: 3}", "Did you mean 'wait'"),
        ("profiling: {record_shape: true}", "Did you mean 'record_shapes'"),
        ("profiling: {zzz: true}", "The settings are: unit, wait"),
        ("profilling: {wait: 3}", "has a section 'profilling'"),
        ("profiling: [1]", "not a list of settings"),
        ("profiling: {wait: soon}", "wait='soon' has the wrong type. Expected `int"),
        ("profiling: {wait: true}", "wait=True has the wrong type"),
        ("profiling: {metrics: loss}", r"Expected `array`, got `str`, such as \['loss'\]"),
        ("profiling: {active: 0}", "active=0 would never record"),
        ("profiling: {repeat: -1}", "repeat=-1 is negative"),
        ("profiling: {unit: day}", "unit='day' is unknown"),
        ("profiling: {overhead_budget: 0}", "overhead_budget=0"),
        ("profiling: {wait: [", "not valid YAML"),
        ("profiling: {log_dir: 's3://bucket/a'}", "log_dir='s3://bucket/a' is a URL"),
        ("profiling: 2026-13-40", "not valid YAML"),
        ("profiling: " + "[" * 5000, "is nested too deeply to be read"),
        ("profiling: " + "{a: " * 5000, "is nested too deeply to be read"),
        ("just text", "has no sections"),
    ],
)
def test_what_cannot_work_is_said(write_text, text, message):
    with pytest.raises(ConfigError, match="(?s).*" + message):
        GpuProfConfig.from_yaml(write_text(text))


@pytest.mark.parametrize("field", [field.name for field in fields(GpuProfConfig)])
def test_of_a_misspelt_setting_its_own_name_comes_first(field):
    for misspelt in (field[:-1], field + "s", field[0] + field[2:]):
        with pytest.raises(ConfigError, match=f"Did you mean '{field}'"):
            GpuProfConfig.check_names({misspelt: 1}, where="profiling")


def test_a_missing_file_is_said(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        GpuProfConfig.from_yaml(tmp_path / "none.yaml")


@pytest.mark.parametrize("url", ["s3://b/c", Path("gs://b/c"), "memory://c", "file:///tmp/c"])
def test_a_log_dir_in_remote_storage_is_refused(url):
    for make in (GpuProfConfig, GpuProfCallback, PhaseTimer):
        with pytest.raises(ConfigError, match="Pass a folder on this machine"):
            make(log_dir=url)


@pytest.mark.parametrize("folder", ["a/b", "C:/logs", "C:\\logs", "run:3", "~/logs", Path("x")])
def test_a_local_log_dir_of_any_name_is_accepted(folder):
    assert GpuProfConfig(log_dir=folder).log_dir == str(folder)
