from functools import partial

import pytest
from rule_cases import outcome


@pytest.fixture
def judge(analyze):
    """Return what a rule says of a run, given as to `analyze`."""
    return lambda finding_id, *phases, **options: outcome(finding_id, analyze(*phases, **options))


@pytest.fixture
def evaluate(judge, request):
    """`judge` of the rule that the test's file is named after, as test_slow_logging.py is."""
    return partial(judge, request.path.stem.removeprefix("test_").replace("_", "-"))
