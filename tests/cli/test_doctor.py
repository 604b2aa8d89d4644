import json

from lightning_gpuprof.cli import doctor, main

GPU = {"name": "NVIDIA H100 80GB HBM3", "total_bytes": 85 * 10**9, "units": 132}
BUILD = {"torch": "2.9", "cuda": "12.8", "hip": None, "activities": ["CPU", "CUDA"]}


def test_torch_is_asked_in_a_process_of_its_own(capsys):
    assert main(["doctor"]) == 0

    text = capsys.readouterr().out
    assert "profiler records: CPU" in text
    assert "device: " in text


def test_a_device_is_shown_with_its_datasheet_row(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "_ask_torch", lambda: {**BUILD, "devices": [dict(GPU)]})
    assert main(["doctor", "--json"]) == 0

    peaks = json.loads(capsys.readouterr().out)["machine"]["devices"][0]["peaks"]
    assert "H100" in peaks["name"]
    assert peaks["url"].startswith("https://")


def test_torch_that_cannot_start_is_an_answer_too(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "_PROBE", "no_such_module_at_all")
    assert main(["doctor"]) == 0
    assert "cannot be used" in capsys.readouterr().out
