from functools import partial

import pytest
from rule_cases import outcome

from lightning_gpuprof.analysis.run.run import analyze_run
from lightning_gpuprof.records.reader import read_run


@pytest.fixture
def judge(analyze):
    """Return what a rule says of a run, given as to `analyze`."""
    return lambda finding_id, *phases, **options: outcome(finding_id, analyze(*phases, **options))


@pytest.fixture
def evaluate(judge, request):
    """`judge` of the rule that the test's file is named after, as test_slow_logging.py is."""
    return partial(judge, request.path.stem.removeprefix("test_").replace("_", "-"))


@pytest.fixture
def ranks(write_ranks):
    """Analyse ranks, given as one dict each as to `make_session`; others of the world left none."""

    def analysed(*each, world=None, traces=None):
        run = write_ranks(*each, world_size=world or len(each))
        return analyze_run(read_run(run), traces or {})

    return analysed
