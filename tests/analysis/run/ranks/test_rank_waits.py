"""Ranks that train together, made of plain numbers: which rank waits for which, and why."""

import numpy as np
import pytest

from lightning_gpuprof.analysis.run.ranks.rank_steps import common_steady
from lightning_gpuprof.analysis.run.ranks.rank_waits import rank_waits
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import Device, StepFlag

MS = 1_000_000
EXCHANGE = "backward/gradient exchange"
STEPS = 40


@pytest.fixture
def compare(write_ranks):
    """Compare ranks, given as a dict of phases, and `exchange`, in ns or a value per step."""

    def session(exchange, parts=None, **phases):
        return {"phases": phases, "parts": {EXCHANGE: exchange, **(parts or {})}}

    def compared(*ranks, **options):
        path = write_ranks(*(session(**rank) for rank in ranks), steps=STEPS, **options)
        sessions = {rank: records.sessions[0] for rank, records in read_run(path).items()}
        return rank_waits(sessions, common_steady(sessions))

    return compared


def test_what_the_last_rank_waits_is_communication_and_the_rest_is_waiting_for_it(compare):
    late = {"data_wait": 5 * MS, "backward": 3 * MS, "exchange": MS}
    early = {"data_wait": MS, "backward": 7 * MS, "exchange": 5 * MS}

    compared = compare(early, late, early)

    assert compared.exchange_ns == MS
    assert compared.waited_ns == {0: 4 * MS, 1: 0, 2: 4 * MS}
    assert (compared.late, compared.late_ns, compared.usual_ns) == ((1,), 4 * MS, 0)
    assert compared.last_frac == {0: 0.0, 1: 1.0, 2: 0.0}
    assert next(iter(compared.causes.items())) == (Phase.DATA_WAIT, 4 * MS)


def test_a_wait_in_the_forward_pass_is_told_from_a_slow_one(compare):
    early = {"forward": 6 * MS, "backward": MS, "exchange": MS, "data_wait": MS}
    late = {"forward": MS, "backward": MS, "exchange": MS, "data_wait": 6 * MS}

    compared = compare(late, early)

    assert (compared.late, compared.late_ns) == ((0,), 5 * MS)
    assert next(iter(compared.causes)) is Phase.DATA_WAIT


@pytest.mark.parametrize("part", ["other/stop check", "logging/self.log"])
def test_lightnings_own_meetings_are_waits_too(compare, part):
    phase = part.split("/")[0]
    slow = {"callbacks": 6 * MS, phase: MS, "exchange": MS, "backward": MS, "parts": {part: MS}}
    waits = {"callbacks": MS, phase: 6 * MS, "exchange": MS, "backward": MS}

    slow["parts"]["callbacks/Slow"] = 5 * MS
    compared = compare(slow, {**waits, "parts": {part: 6 * MS}})

    assert (compared.late, compared.late_ns, compared.part) == ((0,), 5 * MS, "Slow")
    logs = phase == "logging"
    assert compared.log_waited_ns == {0: 0, 1: 5 * MS * logs}


def test_a_callback_makes_its_rank_late_in_the_next_step(compare):
    slow = np.where(np.arange(STEPS) % 10 == 3, 8 * MS, MS)
    waits = np.where(np.arange(STEPS) % 10 == 4, 8 * MS, MS)
    first = {"callbacks": slow, "backward": MS, "exchange": MS}

    compared = compare(first, {"callbacks": MS, "backward": waits, "exchange": waits})

    assert (compared.late, compared.late_ns) == ((0,), 700_000)
    assert next(iter(compared.causes.items())) == (Phase.CALLBACKS, 700_000)


def test_steps_are_matched_by_number_and_profiled_ones_left_out_on_all_ranks(write_ranks):
    flags = np.where(np.arange(STEPS) < 4, int(StepFlag.PROFILED), 0)
    waits = np.where(np.arange(STEPS) < 4, 900 * MS, 2 * MS)
    first = {"phases": {"backward": MS}, "parts": {EXCHANGE: MS}, "flags": flags}
    other = {"phases": {"backward": waits}, "parts": {EXCHANGE: waits}}
    path = write_ranks(first, other, steps=STEPS)
    sessions = {rank: records.sessions[0] for rank, records in read_run(path).items()}

    steady = common_steady(sessions)

    assert {rank: mask.tolist() for rank, mask in steady.items()} == {
        rank: [False] * 4 + [True] * (STEPS - 4) for rank in (0, 1)
    }
    assert rank_waits(sessions, steady).waited_ns == {0: 0, 1: MS}


def test_with_gpus_the_devices_clock_says_who_waits(write_ranks):
    def columns(own, waits):
        backward = {"device/backward": (own + waits) * MS, f"device_part/{EXCHANGE}": waits * MS}
        return {"columns": {"device/forward": MS, **backward}}

    same = {"phases": {"backward": MS, "forward": MS}, "device": Device(type="cuda")}
    path = write_ranks(columns(3, 6), columns(8, 1), steps=STEPS, **same)
    sessions = {rank: records.sessions[0] for rank, records in read_run(path).items()}

    compared = rank_waits(sessions, common_steady(sessions))

    assert (compared.late, compared.late_ns, compared.exchange_ns) == ((1,), 5 * MS, MS)
    assert next(iter(compared.causes)) is Phase.BACKWARD


def test_a_host_that_drives_a_gpu_does_not_wait_and_says_nothing(compare):
    first = {"backward": 9 * MS, "exchange": 8 * MS}
    assert compare(first, {**first, "exchange": MS}, device=Device(type="cuda")) is None


GATHER, REDUCE = "forward/collectives", "backward/collectives"


def sharded(forward, gather, reduce, **more):
    """A rank of `fully_shard`: its own forward, and its waits in forward and in backward."""
    return {
        "forward": forward + gather,
        "backward": MS + reduce,
        "exchange": 0,
        "parts": {GATHER: gather, REDUCE: reduce},
        **more,
    }


def test_a_wait_inside_forward_is_a_wait_and_the_rest_is_forward(compare):
    early, late = sharded(MS, 6 * MS, 2 * MS), sharded(5 * MS, 2 * MS, 2 * MS)

    compared = compare(early, late, early)

    assert (compared.late, compared.late_ns, compared.usual_ns) == ((1,), 4 * MS, 0)
    assert compared.causes == {Phase.FORWARD: 4 * MS}
    assert compared.waited_ns == {0: 4 * MS, 1: 0, 2: 4 * MS}
    assert compared.exchange_ns == 4 * MS
    assert not compared.meets_in_forward


def mesh(data, tensor):
    return {"mesh": {"data": data, "tensor": tensor}}


def test_ranks_of_two_groups_wait_for_the_same_rank_at_different_meetings(write_ranks):
    def rank(place, own, gather, reduce):
        phases = {"forward": own + gather, "backward": MS + reduce}
        return {**place, "phases": phases, "parts": {EXCHANGE: 0, GATHER: gather, REDUCE: reduce}}

    # Rank 1 is late in forward. Its tensor-parallel neighbour waits in forward, the rank that
    # shares its shards does so in backward.
    path = write_ranks(
        rank(mesh(0, 0), MS, 5 * MS, MS),
        rank(mesh(0, 1), 5 * MS, MS, MS),
        rank(mesh(1, 0), MS, 5 * MS, MS),
        rank(mesh(1, 1), MS, MS, 5 * MS),
        steps=STEPS,
    )
    sessions = {number: records.sessions[0] for number, records in read_run(path).items()}

    compared = rank_waits(sessions, common_steady(sessions))

    assert (compared.late, compared.late_ns) == ((1,), 4 * MS)
    assert compared.causes == {Phase.FORWARD: 4 * MS}


def test_a_tensor_parallel_group_is_late_as_a_group(write_ranks):
    def rank(place, fetch, gather):
        phases = {"data_wait": fetch, "forward": MS + gather, "backward": MS}
        return {**place, "phases": phases, "parts": {EXCHANGE: 0, GATHER: gather}}

    early, late = (MS, 9 * MS), (9 * MS, MS)
    path = write_ranks(
        rank(mesh(0, 0), *early),
        rank(mesh(0, 1), *early),
        rank(mesh(1, 0), *late),
        rank(mesh(1, 1), *late),
        steps=STEPS,
    )
    sessions = {number: records.sessions[0] for number, records in read_run(path).items()}

    compared = rank_waits(sessions, common_steady(sessions))

    assert (compared.late, compared.late_ns) == ((2, 3), 8 * MS)
    assert compared.causes == {Phase.DATA_WAIT: 8 * MS}


@pytest.mark.parametrize(("strategy", "expected"), [("DDPStrategy", 0), ("ModelParallel", 4 * MS)])
def test_collectives_of_a_program_under_ddp_are_no_exchange_of_gradients(
    compare, strategy, expected
):
    rank = sharded(MS, 2 * MS, 2 * MS)
    compared = compare(rank, rank, trainer={"strategy": strategy})
    assert compared.exchange_ns == expected
