import json
import os

import pytest

from lightning_gpuprof.cli import doctor, main
from lightning_gpuprof.hardware.lookup import find_peaks
from lightning_gpuprof.hardware.measured import cache_file, save_measured

GPU = {"name": "NVIDIA H100 80GB HBM3", "total_bytes": 85 * 10**9, "units": 132}
MADE_UP = {"name": "Made-up 9000", "flop_per_s": {"fp32": 1e12}, "memory_bytes_per_s": 1e11}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def machine(monkeypatch):
    """Let torch's child answer with given devices."""

    def answer(devices=(), **more):
        build = {"torch": "2.9", "cuda": "12.8", "hip": None, "activities": ["CPU", "CUDA"]}
        found = {**build, "devices": [dict(one) for one in devices], **more}
        monkeypatch.setattr(doctor, "_ask_torch", lambda *, measure: found)

    return answer


def test_a_machine_without_gpu_is_described_and_nothing_is_measured(capsys):
    assert main(["doctor", "--measure-peaks"]) == 0

    text = capsys.readouterr().out
    assert "profiler records: CPU" in text
    if "device: none" in text:
        assert "device: none (no peaks measured)" in text
        assert not cache_file().exists()


def test_a_device_is_shown_with_its_datasheet_row(machine, capsys):
    machine([GPU])
    assert main(["doctor", "--json"]) == 0

    peaks = json.loads(capsys.readouterr().out)["machine"]["devices"][0]["peaks"]
    assert "H100" in peaks["row"]
    assert peaks["url"].startswith("https://")


def test_measured_peaks_are_kept_and_used_where_there_is_no_datasheet_row(machine, capsys):
    machine([{**GPU, "name": "Made-up 9000"}], measured=[MADE_UP])
    assert find_peaks("Made-up 9000").peaks is None
    assert main(["doctor", "--measure-peaks"]) == 0

    assert "kept in" in capsys.readouterr().out
    found = find_peaks("Made-up 9000")
    assert found.peaks.flop_per_s == {"fp32": 1e12}
    assert found.peaks.url == "measured here"


def test_a_datasheet_row_goes_before_what_was_measured():
    save_measured([{**MADE_UP, "name": GPU["name"]}])
    assert find_peaks(GPU["name"]).peaks.url.startswith("https://")


def test_damaged_figures_are_no_figures():
    save_measured([MADE_UP])
    cache_file().write_text("{")
    assert find_peaks("Made-up 9000").peaks is None


def test_a_log_dir_that_cannot_be_made_is_told(machine, tmp_path, capsys):
    machine()
    (tmp_path / "file").write_text("")
    main(["doctor", "--log-dir", os.fspath(tmp_path / "file" / "logs")])
    assert "NOT writable" in capsys.readouterr().out


def test_torch_that_cannot_start_is_told(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "_PROBE", "no_such_module_at_all")
    assert main(["doctor"]) == 0
    assert "cannot be used" in capsys.readouterr().out
