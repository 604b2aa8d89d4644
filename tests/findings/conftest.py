import pytest
from rule_cases import outcome


@pytest.fixture
def judge(analyze):
    """Return what a rule says of a run, given as to `analyze`."""
    return lambda finding_id, *phases, **options: outcome(finding_id, analyze(*phases, **options))
