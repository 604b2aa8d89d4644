from rule_cases import GPU, H100, MS, US, WORK, op, span

TRANSPOSES = {
    "gpu": GPU,
    "operators": [op("aten::convolution", 16, MS)],
    "kernels": [{"name": "cudnn::nchwToNhwcKernel<bf16>", "total_ns": 2 * MS, "mean_ns": 10 * US}],
}


def test_transposes_around_convolutions_are_saved_by_channels_last(evaluate):
    finding = evaluate(WORK, trace=TRANSPOSES, device=H100)
    assert span(finding) == (800 * US, 1_200 * US)
    assert "channels_last" in finding.change
    columns = {"device_dur": 10 * MS, "device/forward": 10 * MS, "run_ahead/forward": US}
    options = {"trace": TRANSPOSES, "device": H100, "columns": columns}
    assert evaluate(WORK, **options) is None  # it would wait for the host


CONTIGUOUS = op("aten::contiguous", 16, 2 * MS, 0)


def test_layout_changes_are_counted_in_the_backward_pass_too(evaluate):
    finding = evaluate(WORK, trace={"operators": [CONTIGUOUS]})
    # One of eight may have to stay; what goes with the others differs by up to a fifth.
    assert span(finding) == (700 * 1_000, 2 * MS)


def test_copies_that_the_gradient_of_a_convolution_makes_are_torchs_own(evaluate):
    within = {**CONTIGUOUS, "backward_count": 16, "backward_ns": 2 * MS}
    assert evaluate(WORK, trace={"operators": [within]}) is None
    half = {**CONTIGUOUS, "backward_count": 8, "backward_ns": MS}
    finding = evaluate(WORK, trace={"operators": [half]})
    assert finding.evidence["relayout_ns"] == MS // 2
    assert finding.evidence["relayouts_per_step_count"] == 4
