"""Rules on which kernels a device's time goes to."""

import pytest
from msgspec.structs import replace
from rule_cases import H100, MS, WORK, span

from lightning_gpuprof.analysis.run.host_lines import NOTE, HostLines, LineCount
from lightning_gpuprof.findings.model import Abstained, Severity
from lightning_gpuprof.findings.told_once import told_once
from lightning_gpuprof.records.attention import UnreadWeights, WrittenAttention
from lightning_gpuprof.records.function_calls import FUNCTIONS_NOTE, FunctionNotes
from lightning_gpuprof.records.lookups import IndexedLookup
from lightning_gpuprof.records.module_calls import CallPlace
from lightning_gpuprof.records.schema import Note

PLACE = CallPlace("train.py", 43, "forward", "vectors = self.vectors[cover]")
ADDS = "void (anonymous namespace)::indexing_backward_kernel<float, 4>(long const*, float*)"
HELD = {"device_dur": 10 * MS, "device/forward": 10 * MS, "run_ahead/forward": 6 * MS}
"""Steps that the device holds up."""


def seen(**found):
    return [Note(step=1, name=FUNCTIONS_NOTE, value=FunctionNotes(**found))]


def kernel(name, total_ns, category="other"):
    return {"name": name, "category": category, "count": 2, "total_ns": total_ns}


def device_op(name, total_ns):
    return {"name": name, "count": 2, "total_ns": 0, "self_ns": 0, "device_total_ns": total_ns}


@pytest.fixture
def on_device(judge):
    def judged(finding_id, trace, records=(), columns=HELD):
        options = {"trace": {"gpu": {}, **trace}, "records": records, "device": H100}
        return judge(finding_id, WORK, columns=columns, **options)

    return judged


INDEXED = {
    "kernels": [kernel(ADDS, 16 * MS), kernel("gemm", 3 * MS, "gemm")],
    "operators": [
        device_op("aten::index", MS),
        device_op("aten::_index_put_impl_", 16 * MS),
        device_op("aten::index_put_", 17 * MS),
        device_op("IndexBackward0", 17 * MS),
        device_op("autograd::engine::evaluate_function: IndexBackward0", 17 * MS),
    ],
}
"""Two steps, in each of which 8 ms of kernels add up what 0.5 ms have looked up."""


def test_adding_up_rows_that_were_looked_up_takes_no_longer_than_a_few_times_moving_them(on_device):
    lookups = (IndexedLookup(rows=10, indices=131_072, width=63, places=(PLACE,)),)
    found = on_device("slow-index-backward", INDEXED, seen(indexed=lookups))
    assert span(found) == (5_500_000, 7_500_000)
    assert found.title == (
        "The gradient of 131,072 rows, picked out of 10, that are looked up by indexing takes "
        "8.00 ms of each step (80.0%)"
    )
    assert (found.where[0].line, found.where[0].phase) == (43, None)
    assert "embedding" in found.change


def test_where_picking_the_rows_was_not_seen_half_of_it_is_sure(on_device):
    found = on_device("slow-index-backward", {"kernels": INDEXED["kernels"]})
    assert span(found) == (4 * MS, 8 * MS)


def test_of_older_records_the_line_is_one_that_indexes_and_was_seen_often(on_device):
    def line(number, source, count):
        return LineCount("forward", "train.py", number, "forward", source, None, None, count)

    lines = (line(40, "x = self.net(x)", 30), line(43, PLACE.source, 9), line(44, "x[i]", 8))
    sampled = [Note(step=9, name=NOTE, value=HostLines(60, lines, {"forward": 47}))]
    found = on_device("slow-index-backward", INDEXED, sampled)
    assert [one.line for one in found.where if one.file] == [43]


def test_rows_that_are_added_up_as_fast_as_they_were_picked_are_well(on_device):
    quick = INDEXED | {"operators": [device_op("aten::index", 17 * MS), INDEXED["operators"][3]]}
    assert on_device("slow-index-backward", quick) is None
    short = {"kernels": [kernel(ADDS, MS // 2)]}
    assert on_device("slow-index-backward", short) is None


def test_what_a_program_accumulates_by_index_itself_is_no_gradient(on_device):
    own = INDEXED | {"operators": [device_op("aten::index_put_", 16 * MS)]}
    assert on_device("slow-index-backward", own) is None
    assert "aten::index_put_" in on_device("dominant-kernel", own).title


def test_steps_that_wait_for_the_host_are_no_shorter_for_it(on_device):
    waiting = HELD | {"run_ahead/forward": 1_000}
    assert on_device("slow-index-backward", INDEXED, columns=waiting) is None


def test_a_kernel_that_is_most_of_what_the_device_does_is_named_with_what_launched_it(on_device):
    found = on_device("dominant-kernel", INDEXED)
    assert found.title == (
        "indexing_backward_kernel takes 84.2% of the kernels' time, 8.00 ms of each step, "
        "launched by aten::_index_put_impl_ in IndexBackward0"
    )
    assert (found.severity, span(found)) == (Severity.INFO, (0, 0))


@pytest.mark.parametrize(
    ("kernels", "columns"),
    [
        ([kernel("ampere_sgemm_128x64_nn", 18 * MS, "gemm")], HELD),
        ([kernel("pooled", 8 * MS), kernel("gathered", 9 * MS)], HELD),
        ([kernel("pooled", 9 * MS)], HELD),
        ([kernel("pooled", 18 * MS)], HELD | {"run_ahead/forward": 1_000}),
    ],
    ids=["products", "several", "half a step", "host-bound"],
)
def test_products_several_kernels_and_steps_that_wait_for_the_host_are_well(
    on_device, kernels, columns
):
    assert on_device("dominant-kernel", {"kernels": kernels}, columns=columns) is None


def test_kernels_of_one_name_are_counted_together(on_device):
    kernels = [kernel("void pooled<float>(int)", 6 * MS), kernel("void pooled<half>(int)", 6 * MS)]
    assert on_device("dominant-kernel", {"kernels": kernels}).where[0].kernel == "pooled"


def test_a_kernel_of_which_a_rule_knows_the_reason_is_told_once(on_device):
    both = [on_device(one, INDEXED) for one in ("dominant-kernel", "slow-index-backward")]
    assert [one.id for one in told_once(both)[0]] == ["slow-index-backward"]


SCORES = [2, 4, 64, 64]


def row(name, category, total_ns, *dims, **more):
    return {"name": name, "category": category, "dims": dims, "total_ns": total_ns, **more}


def product(total_ns, *dims):
    work = {"flop_count": 10**9, "count": 2, "peak_flop_per_s": 10**13}
    return row("aten::bmm", "gemm", total_ns, *dims, **work)


ATTENTION = [
    row("aten::_softmax", "softmax", 2 * MS, SCORES, num_bytes=2**20),
    row("aten::_softmax_backward_data", "softmax", 3 * MS, SCORES, SCORES),
    row("aten::mul", "elementwise", MS, SCORES, []),
    row("aten::mul", "elementwise", 5 * MS, [2, 4, 64, 16], []),
    row("aten::add", "elementwise", 2 * MS, [8, 64, 64], []),
    product(MS, [8, 64, 16], [8, 16, 64]),
    product(MS, [8, 64, 64], [8, 64, 16]),
    product(9 * MS, [3, 64, 16], [3, 16, 16]),
]
"""Two steps: 8 ms on scores, 2 ms of products of them, which could take 0.4 ms."""
WRITTEN = WrittenAttention(
    calls=2, scores=2**15, score_bytes=2**20, between_ns=MS, product_ns=MS // 2, masked=True,
    drops=False, trained=True, places=(PLACE,),
)  # fmt: skip


def test_all_that_only_moves_scores_goes_with_fused_attention(on_device):
    found = on_device("unfused-attention", {"roofline": ATTENTION}, seen(attention=(WRITTEN,)))
    # 4 ms per step; a quarter of 1 ms of products comes once more, 0.8 of it may go.
    assert span(found) == (3_750_000, 4_800_000)
    assert found.where[0].line == 43
    assert "512 KiB of scores" in found.title
    assert "scaled_dot_product_attention" in found.change


def test_of_older_records_the_trace_alone_tells(on_device):
    found = on_device("unfused-attention", {"roofline": ATTENTION}, seen())
    assert (found.where[0].name, found.confidence) == ("aten::_softmax", 0.7)


@pytest.mark.parametrize(
    "notes",
    [
        {"attention": ()},
        {"attention": (WRITTEN,), "unread": UnreadWeights(2, 2**20, None, None, (PLACE,))},
    ],
    ids=["its weights are needed", "torch's own"],
)
def test_attention_that_is_not_to_be_replaced_is_well(on_device, notes):
    assert on_device("unfused-attention", {"roofline": ATTENTION}, seen(**notes)) is None


def test_a_softmax_over_classes_is_no_attention(on_device):
    classes = [row("aten::_softmax", "softmax", 9 * MS, [64, 64], num_bytes=2), *ATTENTION[5:]]
    assert on_device("unfused-attention", {"roofline": classes}) is None


def test_scores_are_told_of_once(on_device):
    categories = [
        {"category": "reduction", "count": 9, "total_ns": 10 * MS},
        {"category": "gemm", "count": 9, "total_ns": 8 * MS},
    ]
    # Of operators that fusing makes faster, with the scores' own.
    streaming = [{**one, "bound": "memory"} for one in ATTENTION[:5]]
    kernels = [kernel("softmax_warp_forward", 10 * MS, "reduction")]
    roofline = [*streaming, *ATTENTION[5:]]
    trace = {"roofline": roofline, "categories": categories, "kernels": kernels}
    both = [on_device(one, trace) for one in ("memory-bound-kernels", "unfused-attention")]
    assert [one.id for one in told_once(both)[0]] == ["unfused-attention"]


@pytest.mark.parametrize(
    ("more", "told"), [({}, True), ({"masked": False}, False), ({"drops": True}, False)]
)
def test_on_a_cpu_fused_attention_is_faster_where_scores_are_masked(judge, more, told):
    notes = seen(attention=(replace(WRITTEN, **more),))
    found = judge("unfused-attention", WORK, records=notes)
    assert (found is not None) == told
    if told:
        assert span(found) == (300_000, 4_500_000)
        assert found.where[0].phase == "forward"


@pytest.mark.parametrize(
    "finding_id", ["slow-index-backward", "dominant-kernel", "unfused-attention"]
)
def test_without_a_trace_a_rule_says_what_it_lacks(judge, finding_id):
    assert isinstance(judge(finding_id, WORK), Abstained)
