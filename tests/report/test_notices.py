from dataclasses import replace
from types import SimpleNamespace

import pytest

from lightning_gpuprof.analysis.run.ranks.rank_results import RankResults
from lightning_gpuprof.analysis.run.ranks.rank_view import RankView
from lightning_gpuprof.analysis.run.run import analyze_run
from lightning_gpuprof.records.facts import CoreWait
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import Loader
from lightning_gpuprof.report.load import load_report
from lightning_gpuprof.report.notices import rank_notices

MS = 1_000_000


@pytest.fixture
def notices():
    """Return the notices of a run, given each rank's status and error."""

    def noticed(*ends, world=None, batches=(), hosts=()):
        ranks = [
            RankView(rank, "host", 9, 1, 1, {}, status, error)
            for rank, (status, error) in enumerate(ends)
        ]
        if batches:
            ranks = [replace(rank, batches=batches[rank.rank]) for rank in ranks]
        start = SimpleNamespace(
            world_size=world or len(ranks), trainer={"num_devices": 2}, model={}, hosts=hosts
        )
        return list(
            rank_notices(
                SimpleNamespace(
                    ranks=RankResults(views=tuple(ranks)), start=start, status=ranks[0].status
                )
            )
        )

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
    assert "copy the others' plugins/gpuprof/rank*.jsonl next to these" in notice


@pytest.mark.parametrize(
    ("here", "world", "hosts", "told"),
    [
        (1, 2, [], "1 on host"),  # beside one that is here
        (2, 4, ["host", "node1"], "2, 3 on node1"),
        (1, 4, ["host", "node1"], "1 to 3 on host, node1"),
        (2, 6, ["host", "node1", ""], "2 to 5"),  # of node2 nobody knows
        (1, 18, ["host", *"abcdefgh"], "1 to 17 on host, a, b, c, d, e and more"),
    ],
)
def test_machines_of_missing_ranks_are_named_where_all_are_known(notices, here, world, hosts, told):
    [notice] = notices(*[("finished", None)] * here, world=world, hosts=hosts)
    assert f"(missing: {told})." in notice


@pytest.mark.parametrize(
    ("status", "batches", "told"),
    [
        ("open", (200, 188), True),
        ("interrupted", (200, 188), True),
        ("finished", (200, 188), False),  # who uses Join knows why
        ("open", (188, 188), False),
        ("open", (200, None), False),
    ],
)
def test_ranks_that_have_unequal_numbers_of_batches_are_told_of_a_run_that_did_not_finish(
    notices, status, batches, told
):
    said = " ".join(notices((status, None), (status, None), batches=batches))
    assert ("An epoch has 200 batches on rank 0 and 188 on rank 1" in said) is told
    assert ("limit_train_batches=188" in said) is told


@pytest.mark.parametrize(
    ("limit", "batches"),
    [(1.0, [200, 188]), (0.5, [100, 94]), (150, [150, 150]), (190, [190, 188])],
)
def test_the_batches_of_an_epoch_are_those_that_the_trainer_takes(write_ranks, limit, batches):
    ranks = ({"loader": Loader(length=length)} for length in (200, 188))
    run = write_ranks(*ranks, phases={"forward": 5}, trainer={"limit_train_batches": limit})
    assert [one.batches for one in analyze_run(read_run(run), {}).ranks.views] == batches


def busy(make_session, write_run, *, queued, workers):
    """Return the notices of a run on a busy machine about free cores."""
    wait = CoreWait(wall_ns=100, queued_ns=queued)
    loader = Loader(num_workers=workers)
    session = make_session({"forward": MS}, records=[wait], loader=loader, cpu_count=4)
    return [text for text in load_report(str(write_run(session))).notices if "free core" in text]


def test_a_busy_machine_is_named(make_session, write_run):
    assert busy(make_session, write_run, queued=40, workers=0) == [
        "Training waited 40% of its time for a free core, because other programs used the 4 "
        "cores as well: times and savings here include that wait."
    ]


def test_loader_workers_may_be_what_keeps_the_cores_busy(make_session, write_run):
    (notice,) = busy(make_session, write_run, queued=40, workers=2)
    assert "because other processes, its loader workers among them, used" in notice


def test_a_quiet_machine_has_no_notice(make_session, write_run):
    assert busy(make_session, write_run, queued=9, workers=0) == []
