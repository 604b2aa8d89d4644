"""What `make gpu` says at its end, of which the last lines may be all that somebody gets to see."""

import importlib

import pytest

OF_PYTEST = """
____ test_one[x] ____
tests/gpu/test_a.py:10: in test_one
    assert 1 == 2
E   assert 1 == 2
tests/gpu/test_a.py:10: AssertionError
---- Captured stdout call ----
much else
____ test_two ____
E   RuntimeError: CUDA error: unspecified
E   and more of it
=================== PASSES ===================
____ test_fine ____
what it printed
""".strip().splitlines()


@pytest.fixture
def gpu(fault_suite):
    return importlib.import_module("gpu")


@pytest.fixture
def summary(gpu):
    return importlib.import_module("_gpu_summary")


def result(**parts):
    machine = {"gpu": "a card", "driver": "1", "packages": {"torch": "2"}}
    return {"machine": machine, "parts": parts}


def part(status, **row):
    return {"status": status, "seconds": 1.0, "tail": [], **row}


def test_each_failed_test_has_its_error_and_its_place(summary):
    failed = result(tests=part("failed (1)", failures=OF_PYTEST), fine=part("passed"))
    assert list(summary.reasons(failed)) == [
        "FAILED test_one[x]\nE   assert 1 == 2\ntests/gpu/test_a.py:10: AssertionError",
        "FAILED test_two\nE   RuntimeError: CUDA error: unspecified\nE   and more of it",
    ]


def test_however_much_fails_the_summary_keeps_its_length(summary, capsys):
    found = result(tests=part("failed (1)", failures=OF_PYTEST[:14] * 500))
    row = {"name": "a figure " * 9, "value": 1.0, "most": 2, "least": None, "passed": True}
    found["figures"] = [row] * 200 + [row | {"name": "beyond", "passed": False}]
    found["tests"] = {f"test_a.py::test_{'long_' * 30}{at}": "failed" for at in range(300)}
    summary.summarize(found)
    said = capsys.readouterr().out
    assert len(said) <= summary.CHARS + 10
    assert "FAIL  beyond" in said
    assert "and 285 more" in said
    assert "FAILED test_one" in said
    assert "a card, driver 1, torch 2" in said.splitlines()[-2]
