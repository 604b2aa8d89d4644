from rule_cases import GPU, H100, MS, US, WORK, category, span

PRODUCTS = {"gpu": GPU, "categories": [category("gemm", 12 * MS)], "tensor_core_frac": 0.0}


def test_low_precision_is_proposed_with_the_ratio_of_the_devices_peaks(evaluate):
    def judged(precision):
        options = {"trace": PRODUCTS, "device": H100, "trainer": {"precision": precision}}
        return evaluate(WORK, **options)

    assert span(judged("32-true")) == (2 * MS, 5 * MS)
    assert judged("bf16-mixed") is None


def test_shorter_kernels_save_nothing_in_steps_that_wait_for_the_host(evaluate, judge):
    ahead = [US] * 75 + [6 * MS] * 25
    columns = {"device_dur": 10 * MS, "device/forward": 10 * MS, "run_ahead/forward": ahead}
    options = {"device": H100, "trainer": {"precision": "32-true"}, "columns": columns}
    finding = evaluate(WORK, trace=PRODUCTS, **options)
    assert span(finding) == (MS // 2, 1_250_000)
    trace = {"gpu": GPU, "categories": [category("gemm", 4 * MS), category("elementwise", 6 * MS)]}
    finding = judge("memory-bound-kernels", WORK, trace=trace, **options)
    assert span(finding) == (187_500, 562_500)
    options["columns"] = columns | {"run_ahead/forward": US}
    assert evaluate(WORK, trace=PRODUCTS, **options) is None
