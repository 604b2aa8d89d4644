import sys

import pytest


@pytest.fixture(autouse=True)
def no_earlier_compile_events():
    """Forget what earlier tests have compiled: an inspection reports every event of its process."""
    utils = sys.modules.get("torch._dynamo.utils")
    if utils is not None:
        utils.graph_break_reasons.clear()
        utils.guard_failures.clear()
        utils.clear_compilation_metrics()
