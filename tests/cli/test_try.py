"""The command's own: its arguments, its page and its YAML. Programs are tried in tests/trials."""

import importlib

import pytest
import yaml
from made_trials import TRIALS

from lightning_gpuprof.cli import main
from lightning_gpuprof.errors import RecordError
from lightning_gpuprof.records.trials import read_trials, write_trials
from lightning_gpuprof.report.build_run import build_run
from lightning_gpuprof.report.document import Interval, decode
from lightning_gpuprof.report.load import load_report


@pytest.fixture
def tried(monkeypatch, tmp_path):
    """What the command asks for; the answer is the trials above."""
    asked = {}

    def try_program(program, **options):
        asked.update(options, program=program)
        return TRIALS

    module = importlib.import_module("lightning_gpuprof.cli.try")
    monkeypatch.setattr(module, "try_program", try_program)
    (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)
    return asked


def test_arguments_say_what_to_try(tried, capsys):
    options = ["--change", "num_workers=4", "--change", "compile", "--for", "90s"]
    assert main(["try", *options, "--finding", "data-wait", "--json", "train.py", "--lr", "1"]) == 0
    assert tried["program"] == ["train.py", "--lr", "1"]
    assert tried["changes"] == [("num_workers", 4), ("compile", None)]
    assert (tried["seconds"], tried["finding"]) == (90, "data-wait")
    document = decode(capsys.readouterr().out)
    assert document.rows("trials")[-1]["gain_frac"] == 0.4


@pytest.mark.parametrize("before", [[], ["--"], ["--", "python"], ["--", "python3.11"]])
def test_a_program_may_be_written_as_it_is_run(tried, before):
    assert main(["try", *before, "train.py", "fit", "--config", "c.yaml"]) == 0
    assert tried["program"] == ["train.py", "fit", "--config", "c.yaml"]
    assert main(["try", "--", "python", "-m", "package.train"]) == 0
    assert tried["program"] == ["-m", "package.train"]


def test_what_cannot_be_is_refused(tried, capsys):
    assert main(["try", "absent.py"]) == 2
    assert "no script absent.py" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["try", "--for", "ten", "train.py"])


def test_settings_are_written_as_yaml_for_lightning_cli(tried, tmp_path):
    assert main(["try", "--write", "best.yaml", "train.py"]) == 0
    text = (tmp_path / "best.yaml").read_text()
    assert yaml.safe_load(text) == {"trainer": {"log_every_n_steps": 50}}
    assert "# DataLoader(..., num_workers=2)" in text


def test_a_report_has_the_trials_of_its_run(write_run, make_session):
    phases = {"data_wait": 6_000_000, "forward": 4_000_000}
    run = write_run(make_session(phases))
    assert build_run(load_report(run)).section("trials") is None
    write_trials(run, TRIALS)
    assert read_trials(run) == TRIALS
    document = build_run(load_report(run))
    effects = document.rows("trial_effects")
    assert effects[1]["predicted_ns"] == Interval(3_000_000, 5_000_000)
    saving = next(card.saving for card in document.findings if card.id == "data-wait")
    assert saving.measured == "num_workers=2"
    assert (saving.low_ns, saving.high_ns) == (3_800_000, 4_200_000)
    raw = build_run(load_report(run, measured=False)).findings
    assert all(card.saving is None or card.saving.measured is None for card in raw)


def test_a_damaged_file_of_trials_is_told(write_run, make_session):
    run = write_run(make_session({"forward": 1_000_000}))
    path = write_trials(run, TRIALS)
    with open(path, "w") as file:
        file.write("{")
    with pytest.raises(RecordError, match="Run `try` again to renew"):
        read_trials(run)
    report = load_report(run)
    assert any("Run `try` again to renew" in notice for notice in report.notices)
