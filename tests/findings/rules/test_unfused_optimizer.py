import pytest
from rule_cases import MS, US, WORK, every, op, span

UPDATES = {**WORK, "optimizer_step": 10 * MS}


def model(name="AdamW", tensors=100, **facts):
    return {"dtypes": {"float32": tensors}, "optimizers": [{"class": name, **facts}]}


@pytest.fixture
def by_hand(evaluate):
    """Judge an optimizer of the program's own, with calls of one operator in its update."""

    def judged(name="PaperAdamW", calls=1_400, operator="aten::mul_", phases=UPDATES):
        rows = [op(operator, calls, 4 * MS) | {"update_count": calls}]
        trace = {"operators": rows}
        return evaluate(phases, trace=trace, model=model(name, groups=1, package="paper"))

    return judged


def test_saves_the_loop_over_tensors(evaluate):
    finding = evaluate(UPDATES, model=model())
    # 0.1 to 0.25 ms are the Trainer's. Beyond 25 us a tensor, fused leaves 20 to 60%.
    assert span(finding) == (
        9_750 * US - 600 * US - round(0.6 * 7_250 * US),
        9_900 * US - 200 * US - round(0.2 * 7_400 * US),
    )
    assert finding.change == "torch.optim.AdamW(..., fused=True)"


def test_an_update_after_several_batches_is_shared_by_them(evaluate, by_hand):
    every_batch = evaluate(UPDATES, model=model())
    phases = UPDATES | {"optimizer_step": every(4, UPDATES["optimizer_step"], first=3)}
    assert by_hand(phases=phases).title.endswith("unfused")
    shared = evaluate(phases, model=model())
    assert shared.evidence["optimizer_ns"] == UPDATES["optimizer_step"] // 4
    assert span(shared) == tuple(bound // 4 for bound in span(every_batch))


@pytest.mark.parametrize(
    ("optimizer", "reported"),
    [
        (model("SGD", 6), False),  # one operator per tensor already
        (model("SGD", 6, momentum=0, weight_decay=0), False),
        (model("SGD", 6, momentum=0.9), True),
        (model("SGD", 6, weight_decay=0.01), True),
        # The fused form would refuse sparse gradients.
        (model("Adagrad") | {"sparse_gradients": True}, False),
        (model("SGD", momentum=0.9) | {"sparse_gradients": True}, False),
        # It takes none at all: they are for another optimizer, or never asked for.
        (model("Adam") | {"sparse_gradients": True}, True),
        (model(fused=True), False),
        (model("Shampoo"), False),  # has no fused form
        (model("PaperAdamW", package="paper"), False),  # a trace knows what that does
    ],
)
def test_is_silent_if_fusing_is_impossible_or_saves_nothing(evaluate, optimizer, reported):
    assert (evaluate(UPDATES, model=optimizer) is not None) is reported


def test_what_the_trainer_does_around_a_few_small_tensors_is_not_saved(evaluate):
    finding = evaluate({**WORK, "optimizer_step": 253 * US}, model=model("Adam", 4))
    assert span(finding) == (0, 253 * US - 100 * US - 8 * US - round(0.2 * 53 * US))


def test_a_custom_optimizer_that_loops_can_be_replaced_by_torchs_own(evaluate, by_hand):
    finding = by_hand()
    assert finding.title == "PaperAdamW takes 10.0 ms of each step (50%), unfused"
    assert "loops over 100 tensors in Python" in finding.advice
    assert finding.change == "torch.optim.AdamW(..., fused=True)  # in place of PaperAdamW"
    assert span(finding) == span(evaluate(UPDATES, model=model()))


def test_for_large_tensors_lists_may_save_nothing(by_hand):
    finding = by_hand("Lion")
    assert finding.saving_ns.low == 0
    assert finding.change is None


def test_another_packages_optimizer_that_uses_lists_is_not_a_loop(by_hand):
    assert by_hand(operator="aten::_foreach_mul_") is None
    assert by_hand(calls=400) is None
