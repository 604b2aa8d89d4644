from dataclasses import replace

import pytest

from lightning_gpuprof.memory.batch_size import PeakLine
from lightning_gpuprof.trials import plan as planning
from lightning_gpuprof.trials.plan import ASSUMPTIONS, FLOAT_READS, LARGEST_BATCH, plan
from lightning_gpuprof.trials.predict import PlanPoint

MIB = 2**20
GIB = 2**30


class Linear:
    """A model of known constants, in place of a prediction."""

    def __init__(self, constant: int, each: int, *, bump_from: int = 10**9, bump: int = 0) -> None:
        self.constant, self.each, self.bump_from, self.bump = constant, each, bump_from, bump
        self.freed_tenths = 0
        self.asked: list[int] = []

    def __call__(self, sizes):
        self.asked += sizes
        return [self.point(size) for size in sizes]

    def point(self, size: int) -> PlanPoint:
        peak = self.constant + self.each * size + (self.bump if size >= self.bump_from else 0)
        return PlanPoint(
            batch_size=size,
            peak_allocated_bytes=peak,
            peak_reserved_bytes=peak,
            least_capacity_bytes=peak - self.freed_tenths * self.each * size // 10,
            peak_phase="backward",
            exact_bytes={},
            optimizer="AdamW",
        )


@pytest.fixture
def planned(monkeypatch):
    """Plan with a model of known constants."""

    def run(model, *, vram=24 * GIB, sizes=(8, 16, 32), **options):
        monkeypatch.setattr(planning, "predict", lambda make, sizes, **_: model(sizes))
        return plan(None, vram_bytes=vram, batch_sizes=sizes, **options)

    return run


def test_the_fit_gives_back_the_constants(planned):
    assert planned(Linear(3 * GIB, 100 * MIB)).allocated == PeakLine(3 * GIB, 100 * MIB)


def test_the_batch_size_is_the_largest_multiple_of_eight_within_the_target(planned):
    model = Linear(3 * GIB, 100 * MIB)
    card = planned(model).cards[0]
    # 0.8 * 24 GiB - 3 GiB = 16.2 GiB = 165.9 samples; the whole card holds 215.
    assert card.batch_size == 160
    assert card.largest_batch_size == 215
    assert card.vram_frac == pytest.approx((3 * GIB + 160 * 100 * MIB) / (24 * GIB))
    assert model.asked == [8, 16, 32, 160]


def test_the_largest_counts_on_memory_that_the_pool_gives_back_and_the_suggestion_does_not(planned):
    model = Linear(3 * GIB, 100 * MIB)
    model.freed_tenths = 3
    card = planned(model).cards[0]
    # 21 GiB at 70 MiB each.
    assert (card.batch_size, card.largest_batch_size) == (160, 307)


@pytest.mark.parametrize(
    ("constant", "each", "largest"), [(30 * GIB, 100 * MIB, None), (20 * GIB, GIB, 4)]
)
def test_a_card_that_holds_no_sample_within_the_target_gets_no_size(
    planned, constant, each, largest
):
    card = planned(Linear(constant, each)).cards[0]
    assert (card.batch_size, card.peak_reserved_bytes, card.vram_frac) == (None, None, None)
    assert card.largest_batch_size == largest


def test_a_size_that_leaves_room_is_followed_by_the_answer_of_the_line_through_it(planned):
    # The line through the small sizes rises by 256 MiB a sample and says 80: a third of the card.
    model = Linear(0, 100 * MIB)
    small = {8: GIB, 16: 3 * GIB, 32: 7 * GIB}
    point = model.point

    def rounded(size):
        peak = small.get(size, size * 100 * MIB)
        return replace(point(size), peak_reserved_bytes=peak)

    model.point = rounded
    card = planned(model).cards[0]
    assert model.asked[:4] == [8, 16, 32, 80]
    assert 0.7 <= card.vram_frac <= 0.8


@pytest.mark.parametrize(
    ("bump", "asked"),
    [
        # 160 takes 22.6 GiB of 19.2: a line through 160, too, says 128, and then 120.
        (4 * GIB, [8, 16, 32, 160, 128, 120]),
        # 160 takes 19.6 GiB: that line says 152, too little less; a notch of 160 is 10, so 144.
        (GIB, [8, 16, 32, 160, 144]),
    ],
)
def test_a_size_over_the_limit_is_followed_by_the_lines_answer_or_a_notch_less(
    planned, bump, asked
):
    model = Linear(3 * GIB, 100 * MIB, bump_from=100 if bump > GIB else 150, bump=bump)
    card = planned(model).cards[0]
    assert card.peak_reserved_bytes <= 0.8 * 24 * GIB
    assert (card.batch_size, model.asked) == (asked[-1], asked)


def test_a_peak_that_does_not_grow_allows_any_size(planned):
    card = planned(Linear(3 * GIB, 0)).cards[0]
    assert (card.batch_size, card.batch_size_cap) == (LARGEST_BATCH, "search")
    assert (card.largest_batch_size, card.largest_batch_size_cap) == (LARGEST_BATCH, "search")


@pytest.mark.parametrize(
    ("samples", "sizes", "caps"),
    [
        (1000, (160, 215), (None, None)),
        (203, (160, 203), (None, "samples")),
        (101, (101, 101), ("samples", "samples")),
    ],
)
def test_no_batch_is_larger_than_the_dataset_and_such_a_size_is_a_cap(
    planned, samples, sizes, caps
):
    card = planned(Linear(3 * GIB, 100 * MIB), samples=samples).cards[0]
    assert (card.batch_size, card.largest_batch_size) == sizes
    assert (card.batch_size_cap, card.largest_batch_size_cap) == caps


def test_a_search_that_ends_before_memory_is_full_is_a_cap(planned):
    # Each size needs less memory than the line through smaller ones says.
    model = Linear(0, 1)

    def measure(sizes):
        return [replace(model.point(size), peak_reserved_bytes=size**0.5) for size in sizes]

    card = planned(measure, vram=1000).cards[0]
    assert card.batch_size_cap == "tries"


def test_one_size_is_doubled_to_have_a_line(planned):
    model = Linear(GIB, MIB)
    assert planned(model, vram=(), sizes=(4,)).allocated == PeakLine(GIB, MIB)
    assert model.asked == [4, 8]


def test_small_batches_that_peak_in_the_optimizer_do_not_bend_the_line(planned):
    model = Linear(3 * GIB, 100 * MIB)
    flat = replace(model.point(10), batch_size=4, peak_phase="optimizer_step")

    def measure(sizes):
        return [flat if size == 4 else model.point(size) for size in sizes]

    assert planned(measure, vram=(), sizes=(4, 16, 32)).allocated == PeakLine(3 * GIB, 100 * MIB)


def test_a_number_that_the_step_reads_is_among_the_assumptions(planned):
    model = Linear(3 * GIB, 100 * MIB)
    assert planned(model).assumptions == ASSUMPTIONS
    read = replace(model.point(8), float_reads=2)
    assert planned(lambda sizes: [read, model.point(16)], vram=()).assumptions == (
        *ASSUMPTIONS,
        *FLOAT_READS,
    )
