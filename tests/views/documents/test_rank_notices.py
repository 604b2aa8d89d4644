from types import SimpleNamespace

import pytest

from lightning_gpuprof.analysis.run.ranks.rank_view import RankView
from lightning_gpuprof.views.documents.rank_notices import rank_notices


@pytest.fixture
def notices():
    """Return the notices of a run, given each rank's status and error."""

    def noticed(*ends, world=None):
        ranks = [
            RankView(rank, "host", 9, 1, 1, {}, status, error)
            for rank, (status, error) in enumerate(ends)
        ]
        start = SimpleNamespace(world_size=world or len(ranks))
        return list(rank_notices(SimpleNamespace(ranks=ranks, start=start, status=ranks[0].status)))

    return noticed


def test_ranks_that_all_finished_need_no_word(notices):
    assert notices(("finished", None), ("finished", None)) == []


def test_the_rank_that_failed_is_named_before_those_that_lost_it(notices):
    lost = "RuntimeError: [pair.cc:553] Connection closed by peer [10.0.0.{}]:51076."
    [notice] = notices(
        *(("exception", lost.format(host)) for host in range(3)),
        ("exception", "ValueError: no such sample\nand more"),
    )
    assert notice == (
        "Rank 3 ended by an exception (ValueError: no such sample); "
        "ranks 0 to 2 lost the connection to another rank."
    )


def test_a_rank_that_was_killed_left_no_closing_record(notices):
    [notice] = notices(("exception", "DistBackendError: NCCL error"), ("open", None))
    assert notice == (
        "Rank 1 left no closing record (killed, or still running); "
        "rank 0 lost the connection to another rank."
    )


def test_ranks_without_records_here_are_said_with_what_to_do(notices):
    [notice] = notices(("finished", None), world=8)
    assert notice.startswith("Records of 1 of 8 ranks are here (missing: 1 to 7). ")
    assert "copy the others' plugins/gpuprof/rank*.jsonl beside these" in notice
