from rule_cases import MS, US, WORK, op, span

UPDATES = {**WORK, "optimizer_step": 10 * MS}


def model(**facts):
    return {"dtypes": {"float32": 100}, "optimizers": [{"class": "AdamW", **facts}]}


def test_saves_the_loop_over_tensors(judge):
    finding = judge("unfused-optimizer", UPDATES, model=model())
    # 0.1 to 0.25 ms are the Trainer's. Beyond 25 us a tensor, fused leaves 20 to 60%.
    assert span(finding) == (
        9_750 * US - 600 * US - round(0.6 * 7_250 * US),
        9_900 * US - 200 * US - round(0.2 * 7_400 * US),
    )
    assert finding.change == "torch.optim.AdamW(..., fused=True)"


def test_an_update_after_several_batches_is_shared_by_them(judge):
    each = judge("unfused-optimizer", UPDATES, model=model())
    fourth = [UPDATES["optimizer_step"] if step % 4 == 3 else 0 for step in range(100)]
    phases = UPDATES | {"optimizer_step": fourth}
    assert by_hand(judge, phases=phases).title.endswith("unfused")
    shared = judge("unfused-optimizer", phases, model=model())
    assert shared.evidence["optimizer_ns"] == UPDATES["optimizer_step"] // 4
    assert span(shared) == tuple(one // 4 for one in span(each))


def test_is_silent_where_the_fused_form_would_refuse_sparse_gradients(judge):
    def said(name):
        model = {"dtypes": {"float32": 100}, "optimizers": [{"class": name, "momentum": 0.9}]}
        return judge("unfused-optimizer", UPDATES, model={**model, "sparse_gradients": True})

    assert said("Adagrad") is None
    assert said("SGD") is None
    # It takes none at all: they are for another optimizer, or never asked for.
    assert said("Adam") is not None


def test_plain_sgd_is_one_operator_per_tensor_already(judge):
    def sgd(**facts):
        return {"dtypes": {"float32": 6}, "optimizers": [{"class": "SGD", **facts}]}

    assert judge("unfused-optimizer", UPDATES, model=sgd()) is None
    assert judge("unfused-optimizer", UPDATES, model=sgd(momentum=0, weight_decay=0)) is None
    assert judge("unfused-optimizer", UPDATES, model=sgd(momentum=0.9)) is not None
    assert judge("unfused-optimizer", UPDATES, model=sgd(weight_decay=0.01)) is not None


def test_what_the_trainer_does_around_a_few_small_tensors_is_not_saved(judge):
    model = {"dtypes": {"float32": 4}, "optimizers": [{"class": "Adam"}]}
    finding = judge("unfused-optimizer", {**WORK, "optimizer_step": 253 * US}, model=model)
    assert span(finding) == (0, 253 * US - 100 * US - 8 * US - round(0.2 * 53 * US))


def test_is_silent_when_fused_or_without_a_fused_form(judge):
    assert judge("unfused-optimizer", UPDATES, model=model(fused=True)) is None
    other = {"dtypes": {"float32": 100}, "optimizers": [{"class": "Shampoo"}]}
    assert judge("unfused-optimizer", UPDATES, model=other) is None


def by_hand(judge, name="PaperAdamW", calls=1_400, operator="aten::mul_", **options):
    phases = options.pop("phases", UPDATES)
    optimizers = [{"class": name, "groups": 1, "package": "paper"}]
    rows = [op(operator, calls, 4 * MS) | {"update_count": calls}]
    model = {"dtypes": {"float32": 100}, "optimizers": optimizers}
    trace = {"operators": rows}
    return judge("unfused-optimizer", phases, trace=trace, model=model, **options)


def test_an_optimizer_written_by_hand_is_a_loop_that_torchs_own_would_end(judge):
    finding = by_hand(judge)
    assert finding.title == "PaperAdamW takes 10.0 ms of each step (50.0%), unfused"
    assert "loops over 100 tensors in Python" in finding.advice
    assert finding.change == "torch.optim.AdamW(..., fused=True)  # in place of PaperAdamW"
    assert span(finding) == span(judge("unfused-optimizer", UPDATES, model=model()))


def test_for_large_tensors_lists_may_save_nothing(judge):
    finding = by_hand(judge, "Lion")
    assert finding.saving_ns.low == 0
    assert finding.change is None


def test_anothers_optimizer_that_goes_through_lists_is_no_loop(judge):
    assert by_hand(judge, operator="aten::_foreach_mul_") is None
    assert by_hand(judge, calls=400) is None


def test_without_a_trace_nobody_knows_what_anothers_optimizer_does(judge):
    optimizers = [{"class": "PaperAdamW", "package": "paper"}]
    model = {"dtypes": {"float32": 100}, "optimizers": optimizers}
    assert judge("unfused-optimizer", UPDATES, model=model) is None
