"""A few seconds of `make fuzz`."""

import pytest
from fuzz.run import Fuzzer

from lightning_gpuprof import cli
from lightning_gpuprof.tab import replies


@pytest.fixture
def fuzzer(tmp_path, monkeypatch):
    # The fuzzer puts its own in their place.
    monkeypatch.setattr(cli, "_logged", cli._logged)
    monkeypatch.setattr(replies._log, "exception", replies._log.exception)
    return Fuzzer(tmp_path, seed=1)


def test_damaged_files_give_figures_or_a_sentence(fuzzer):
    for number in range(2_000):
        fuzzer.run_light(number)
    for number in range(96):
        fuzzer.run_deep(number)
    assert fuzzer.failures == {}
