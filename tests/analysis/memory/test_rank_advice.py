from lightning_gpuprof.analysis.memory.memory_use import MemoryGrowth, rank_advice
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import SCHEMA_VERSION, Advice, RunStart

START = RunStart(schema_version=SCHEMA_VERSION, session=0, stage="fit", started_unix_ns=0, rank=0)


def session(*suggested, reason=""):
    records = tuple(
        Advice(step=step, batch_size=16, suggested_batch_size=size, reason=reason)
        for step, size in enumerate(suggested)
    )
    return Session(start=START, records=records, columns={})


def test_the_rank_with_the_least_headroom_decides():
    advice = rank_advice({0: session(32, 64), 1: session(48)})
    assert advice.suggested_batch_size == 48
    assert advice.details == {"rank": 1, "ranks_advised": 2}


def test_of_ranks_held_at_one_size_the_one_whose_band_begins_lower_speaks():
    def held(low):
        advice = Advice(step=0, batch_size=16, suggested_batch_size=64, low=low)
        return Session(start=START, records=(advice,), columns={})

    assert rank_advice({0: held(64), 1: held(40)}).details["rank"] == 1


def test_a_rank_that_suggests_nothing_withholds_it_for_all():
    advice = rank_advice({0: session(64), 1: session(None, reason="CUDA graphs")})
    assert advice.suggested_batch_size is None
    assert advice.reason == "rank 1: CUDA graphs"


def test_a_rank_that_measured_nothing_is_said():
    advice = rank_advice({0: session(64), 1: session()})
    assert advice.suggested_batch_size == 64
    assert advice.reason == "1 of 2 ranks measured no memory"


def test_memory_that_grows_withholds_what_was_suggested_before_it_showed():
    def grown(*, of_device):
        return MemoryGrowth(
            of_device=of_device,
            bytes_per_step=2**20,
            last_bytes=2**30,
            steps_left=None,
        )

    advice = rank_advice({0: session(128)}, grown(of_device=True))
    assert (advice.batch_size, advice.suggested_batch_size) == (16, None)
    assert advice.reason.startswith("memory between steps grows by 1.00 MiB per step")
    assert rank_advice({0: session(128)}, grown(of_device=False)).suggested_batch_size == 128
