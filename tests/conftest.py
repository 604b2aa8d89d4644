"""Fixtures that every test folder may use."""

import os
from pathlib import Path

import pytest

# One thread per test process: two cores are all that CI has.
os.environ.setdefault("OMP_NUM_THREADS", "1")

SHARED_TRACES = Path(__file__).parents[2] / "shared" / "traces"


@pytest.fixture(scope="session")
def shared_traces() -> Path:
    """The folder of real traces from public projects, kept outside this repository."""
    if not SHARED_TRACES.is_dir():
        pytest.skip("the real traces are not beside this checkout (../shared/traces)")
    return SHARED_TRACES
