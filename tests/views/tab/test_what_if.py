import pytest

import lightning_gpuprof
from lightning_gpuprof.errors import RecordError
from lightning_gpuprof.records.schema import Loader
from lightning_gpuprof.views.tab.loaded_run import LoadedRun
from lightning_gpuprof.views.tab.query import Query, QueryError
from lightning_gpuprof.views.tab.run_views import what_if_view

MS = 1_000_000


@pytest.fixture
def run(make_session, write_run):
    """A run that waits for data and has a slow callback."""
    phases = {"data_wait": 6 * MS, "forward": 2 * MS, "callbacks": 2 * MS}
    parts = {"callbacks/EMA": 2 * MS}
    return write_run(make_session(phases, parts=parts, loader=Loader(num_workers=0)))


def test_one_finding_fixed_saves_what_it_promised(run):
    found = lightning_gpuprof.what_if(run, removing="slow-callback")
    assert (found.saving_low_ns, found.saving_high_ns) == (1_440_000, 2_352_000)


def test_two_add_up_where_they_lie_in_different_places(run):
    one = lightning_gpuprof.what_if(run, removing="data-wait")
    two = lightning_gpuprof.what_if(run, removing=["data-wait", "slow-callback"])
    assert two.saving_high_ns == one.saving_high_ns + 2_352_000


def test_an_id_that_the_report_does_not_have_is_named_with_those_it_has(run):
    with pytest.raises(RecordError, match=r"'host-sync'.*data-wait, slow-callback"):
        lightning_gpuprof.what_if(run, removing="host-sync")


def test_the_tabs_view_takes_ids_separated_by_commas(run):
    payload = what_if_view(LoadedRun(run), Query({"removing": "data-wait,slow-callback"}))
    assert payload["step_ns"] == 10 * MS
    assert payload["saving_ns"]["high"] == payload["step_ns"] - payload["step_low_ns"]
    with pytest.raises(QueryError):
        what_if_view(LoadedRun(run), Query({"removing": "nonsense"}))
