"""The benchmarks are scripts: their folders go on the import path, as when they run."""

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def fault_suite(monkeypatch):
    """Make benchmarks/ and those of its folders importable that are tested, for one test."""
    if not BENCHMARKS.is_dir():
        pytest.skip("the benchmarks are not part of this copy of the sources")
    before = set(sys.modules)
    for folder in (".", "cost", "peers", "faults", "on_gpu", "reading"):
        monkeypatch.syspath_prepend(str(BENCHMARKS / folder))
    yield BENCHMARKS / "faults"
    for name in set(sys.modules) - before:  # short names like `case` must not stay
        if str(BENCHMARKS) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
