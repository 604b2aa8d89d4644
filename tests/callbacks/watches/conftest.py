import sys

import pytest


@pytest.fixture(autouse=True)
def nothing_compiled():
    """What other tests compiled in this process is forgotten: after it no look is taken."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is not None:
        dynamo.counters.clear()
