import msgspec
import pytest

from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.trials.cards import (
    LARGEST_BATCH,
    LinearFit,
    fit_line,
    make_plan,
)
from lightning_gpuprof.trials.messages import Card, PlanPoint

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
            kind_bytes={},
            exact_bytes={},
            optimizer="AdamW",
            assumptions=("kernels are not counted",),
        )


def plan(model, *, vram, sizes=(8, 16, 32), **options):
    return make_plan(
        model,
        batch_sizes=sizes,
        cards=[Card(size) for size in vram],
        precision="32-true",
        **options,
    )


def test_the_fit_gives_back_the_constants():
    result = plan(Linear(3 * GIB, 100 * MIB), vram=[24 * GIB])
    assert result.allocated == LinearFit(3 * GIB, 100 * MIB, 0.0)
    assert result.assumptions == ("kernels are not counted",)


def test_the_batch_size_is_the_largest_multiple_of_eight_within_the_band():
    model = Linear(3 * GIB, 100 * MIB)
    card = plan(model, vram=[24 * GIB]).cards[0]
    # 0.8 * 24 GiB - 3 GiB = 16.2 GiB = 165.9 samples; the whole card holds 215.
    assert card.batch_size == 160
    assert card.largest == 215
    assert card.frac == pytest.approx((3 * GIB + 160 * 100 * MIB) / (24 * GIB))
    assert 160 in model.asked


def test_the_largest_counts_on_what_the_pool_gives_back_and_the_suggestion_does_not():
    model = Linear(3 * GIB, 100 * MIB)
    model.freed_tenths = 3
    card = plan(model, vram=[24 * GIB]).cards[0]
    # 21 GiB at 70 MiB each.
    assert (card.batch_size, card.largest) == (160, 307)


def test_what_lies_outside_the_allocator_is_kept_free_on_request():
    card = plan(Linear(3 * GIB, 100 * MIB), vram=[24 * GIB], outside_bytes=GIB).cards[0]
    assert (card.batch_size, card.largest) == (152, 204)


def test_a_card_that_cannot_hold_one_sample_gets_no_size():
    card = plan(Linear(30 * GIB, 100 * MIB), vram=[24 * GIB]).cards[0]
    assert (card.batch_size, card.point, card.frac, card.largest) == (None, None, None, None)


def test_a_card_that_holds_one_sample_but_not_within_the_band_is_told_so():
    card = plan(Linear(20 * GIB, GIB), vram=[24 * GIB]).cards[0]
    assert (card.batch_size, card.largest) == (None, 4)


def test_a_prediction_over_the_limit_sends_the_size_back_down():
    # From 100 samples on the step takes 4 GiB more than the line through small sizes says.
    model = Linear(3 * GIB, 100 * MIB, bump_from=100, bump=4 * GIB)
    card = plan(model, vram=[24 * GIB]).cards[0]
    assert card.point is not None
    assert card.point.peak_reserved_bytes <= 0.8 * 24 * GIB
    assert card.batch_size >= 100


def test_a_size_below_the_band_is_followed_by_what_the_line_through_it_says():
    # The line through the small sizes rises by 256 MiB a sample and says 80: a third of the card.
    model = Linear(0, 100 * MIB)
    small = {8: GIB, 16: 3 * GIB, 32: 7 * GIB}
    point = model.point

    def rounded(size):
        peak = small.get(size, size * 100 * MIB)
        return msgspec.structs.replace(point(size), peak_reserved_bytes=peak)

    model.point = rounded
    card = plan(model, vram=[24 * GIB]).cards[0]
    assert model.asked[:4] == [8, 16, 32, 80]
    assert 0.6 <= card.frac <= 0.8


@pytest.mark.parametrize(
    ("bump", "asked"),
    [
        # 160 takes 22.6 GiB of 19.2: a line through 160, too, says 128, and then 120.
        (4 * GIB, [8, 16, 32, 160, 128, 120]),
        # 160 takes 19.6 GiB: that line says 152, too little less; a notch of 160 is 10, so 144.
        (GIB, [8, 16, 32, 160, 144]),
    ],
)
def test_a_size_over_the_limit_is_followed_by_what_the_line_says_or_a_notch_less(bump, asked):
    model = Linear(3 * GIB, 100 * MIB, bump_from=100 if bump > GIB else 150, bump=bump)
    assert plan(model, vram=[24 * GIB]).cards[0].batch_size == asked[-1]
    assert model.asked == asked


def test_a_peak_that_does_not_grow_allows_any_size():
    card = plan(Linear(3 * GIB, 0), vram=[24 * GIB]).cards[0]
    assert card.batch_size == LARGEST_BATCH


def test_one_size_is_doubled_to_have_a_line():
    model = Linear(GIB, MIB)
    assert plan(model, vram=[], sizes=(4,)).allocated == LinearFit(GIB, MIB, 0.0)
    assert model.asked == [4, 8]


def test_a_bent_curve_is_not_called_linear():
    assert fit_line([1, 2, 4], [100, 110, 400]).linear is False


def test_a_band_out_of_range_is_refused():
    with pytest.raises(ConfigError, match="within 0 and 1"):
        plan(Linear(GIB, MIB), vram=[], target_frac=(0.8, 0.6))


def test_small_batches_that_peak_in_the_optimizer_do_not_bend_the_line():
    model = Linear(3 * GIB, 100 * MIB)
    flat = msgspec.structs.replace(model.point(10), batch_size=4, peak_phase="optimizer_step")

    def measure(sizes):
        return [flat if size == 4 else model.point(size) for size in sizes]

    assert plan(measure, vram=[], sizes=(4, 16, 32)).allocated == LinearFit(3 * GIB, 100 * MIB, 0.0)
