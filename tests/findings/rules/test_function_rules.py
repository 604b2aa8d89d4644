"""Rules on what torch's functions did in a forward pass of the first batches."""

import pytest
from msgspec.structs import replace
from rule_cases import MS, span

from lightning_gpuprof.analysis.run.host_lines import NOTE, HostLines, LineCount
from lightning_gpuprof.findings.model import Abstained, Severity
from lightning_gpuprof.records.activations import WrittenActivation
from lightning_gpuprof.records.attention import UnreadWeights
from lightning_gpuprof.records.function_calls import (
    FUNCTIONS_NOTE,
    BuiltWeight,
    Checkpointed,
    ConstantWork,
    FunctionNotes,
    Penalty,
    RebuiltWeights,
    SeparateLayers,
    UnusedScores,
)
from lightning_gpuprof.records.lookups import OneHotLookup, OneHotSum
from lightning_gpuprof.records.module_calls import CallPlace
from lightning_gpuprof.records.padding import PADDING_NOTE, Padding
from lightning_gpuprof.records.schema import Device, Note
from lightning_gpuprof.records.sparse_products import SparseProduct

PHASES = {"forward": 4 * MS, "backward": 6 * MS}
PLACE = CallPlace("train.py", 27, "forward", "x = self.f(x)")
PLACES = (PLACE,)
IDS = Padding("0", "ids", 4, (100, 100), (50, 70), PLACE)
EVERY = (
    "recomputed-constant",
    "penalty-in-loss",
    "full-weight-product",
    "separate-layers",
    "unread-attention-weights",
    "needless-checkpointing",
    "rebuilt-weights",
    "one-hot-lookup",
    "one-hot-sum",
    "separable-filter",
    "slow-slice-backward",
    "unfused-activation",
    "dense-sparse-matmul",
    "unused-scores",
)


@pytest.fixture
def look(judge):
    def looked(finding_id, padded=(), **seen):
        options = {k: seen.pop(k) for k in ("device", "trace", "model") if k in seen}
        phases = PHASES | seen.pop("more", {})
        notes = seen.pop("notes", [])
        notes = [*notes, Note(step=1, name=FUNCTIONS_NOTE, value=FunctionNotes(**seen))]
        notes += [Note(step=1, name=PADDING_NOTE, value=padded)]
        return judge(finding_id, phases, records=notes, **options)

    return looked


def test_values_that_never_change_are_named_with_their_lines(look):
    (finding,) = look("recomputed-constant", constants=(ConstantWork(MS, 4, PLACES),))
    assert finding.title == (
        "forward computes the same values in every step, from neither the batch nor the weights: "
        "1.00 ms (10.0%)"
    )
    assert finding.where[0].line == 27
    # A fifth less; three quarters more, and 5 us of Python per call.
    assert span(finding) == (800_000, 1_770_000)


def test_the_python_around_a_constant_counts_where_its_function_does_nothing_else(look):
    lines = (
        LineCount("forward", "train.py", 26, "forward", "boxes.append(x)", None, None, 40),
        LineCount("forward", "train.py", 27, "forward", "", None, "torch", 10),
        LineCount("forward", "train.py", 27, "other", "", None, "torch", 50),
    )
    sampled = Note(step=9, name=NOTE, value=HostLines(200, lines, {"forward": 100}))
    work = ConstantWork(MS // 2, 1, PLACES, alone=True)
    (finding,) = look("recomputed-constant", constants=(work,), notes=[sampled])
    assert finding.evidence["constant_ns"] == 2 * MS
    # Half of 100 samples is a share of 0.4 to 0.6 of 4 ms, a fifth less to a fifth more.
    assert span(finding) == (1_280_000, 2_880_000)
    mixed = replace(work, alone=False)
    (finding,) = look("recomputed-constant", constants=(mixed,), notes=[sampled])
    assert span(finding) == (400_000, 880_000)


def test_a_small_range_is_every_models(look):
    assert look("recomputed-constant", constants=(ConstantWork(90_000, 1, PLACES),)) == ()


def test_a_penalty_costs_its_way_back_too(look):
    finding = look("penalty-in-loss", penalty=Penalty(1_000, MS, PLACES))
    assert finding.severity is Severity.CRITICAL
    assert finding.change is None  # no optimizer was recorded
    assert span(finding) == (1_600_000, 4_800_000)


def test_a_penalty_goes_to_the_runs_own_optimizer_and_one_of_another_decay_says_so(look):
    def changed(name):
        model = {"optimizers": [{"class": name}]}
        return look("penalty-in-loss", penalty=Penalty(1_000, MS, PLACES), model=model).change

    assert changed("Adam").startswith("torch.optim.Adam(self.parameters(), ..., weight_decay=")
    assert "for factor / 2 * (sum of squares)" in changed("Adam")
    assert "choose the factor anew" in changed("AdamW")
    assert changed("Mine") is None


def test_thin_factors_save_the_gradient_of_the_whole_matrix(look):
    finding = look("full-weight-product", built=BuiltWeight(2, 100_000, 50_000, MS, 0.1, PLACES))
    # 0.7 of the layers, three products and twice what is around them.
    assert span(finding) == (385_000, 1_045_000)


def test_factors_that_are_not_thin_enough_save_nothing(look):
    built = BuiltWeight(2, 10_000, 0, MS, 0.5, PLACES)
    assert look("full-weight-product", built=built) is None


def test_weights_computed_again_cost_their_way_back_too(look):
    finding = look("rebuilt-weights", rebuilt=RebuiltWeights(5, MS, PLACES))
    assert finding.title.startswith("forward computes with the same weights 5 times a step")
    assert span(finding) == (800_000, 3_600_000)


def test_a_small_repetition_is_left_out(look):
    assert look("rebuilt-weights", rebuilt=RebuiltWeights(2, 90_000, PLACES)) is None


TABLES = SeparateLayers("embedding", 41, 9_000, (64,), (30, 8), PLACE)


def test_separate_layers_cost_their_calls_and_their_updates(look):
    model = {"optimizers": [{"class": "Adam"}], "dtypes": {"float32": 100}}
    more = {"optimizer_step": 2 * MS}
    (finding,) = look("separate-layers", separate=(TABLES,), model=model, more=more)
    assert finding.title == "41 layers (embedding, 30 x 8) are called one by one"
    # 20 us for an update, 40 us for a call; one table of many rows may gain nothing.
    assert span(finding) == (0, 2_400_000)
    heads = replace(TABLES, kind="linear", tensors=2)
    (finding,) = look("separate-layers", separate=(heads,), model=model, more=more)
    assert span(finding) == (1_400_000, 3_200_000)
    without_bias = replace(heads, tensors=1)
    (finding,) = look("separate-layers", separate=(without_bias,), model=model, more=more)
    assert span(finding) == (1_000_000, 2_400_000)


def test_a_fused_optimizer_has_no_calls_per_tensor(look):
    model = {"optimizers": [{"class": "Adam", "fused": True}]}
    (finding,) = look("separate-layers", separate=(TABLES,), model=model)
    assert span(finding) == (0, 1_600_000)


def test_heads_of_several_layers_cost_each_of_them_and_what_follows(look):
    heads = replace(TABLES, kind="linear", depth=2, after=3)
    (finding,) = look("separate-layers", separate=(heads,))
    assert finding.title.startswith("2 times 41 layers (linear, 30 x 8) are called one by one")
    assert (finding.evidence["layers_count"], finding.evidence["after_count"]) == (82, 123)
    # Two calls of 15 to 40 us, and three functions of 4 to 15.
    assert span(finding) == (40 * (30_000 + 12_000), 40 * (80_000 + 45_000))
    assert "scaled_dot_product_attention" not in finding.advice


def test_heads_of_attention_are_to_be_one_projection_and_one_call(look):
    heads = replace(TABLES, kind="linear", layers=12, attends=True)
    (finding,) = look("separate-layers", separate=(heads,))
    assert "F.scaled_dot_product_attention" in finding.advice
    assert "all_heads = nn.Linear(width, 3 * heads * size, bias=False)" in finding.change


ROWS = OneHotLookup(900, 64, 128, MS, MS, PLACES)


def test_rows_that_could_be_looked_up_cost_the_layers_gradient_too(look):
    (finding,) = look("one-hot-lookup", lookups=(ROWS,))
    assert finding.title.startswith("128 rows of 900 zeros and ones pick rows of weights: 2.00 ms")
    assert finding.change.startswith("table = nn.Embedding(900, 64)")
    # An embedding's own first values would be 30 times as large.
    assert "uniform_(table.weight, -(900**-0.5), 900**-0.5)" in finding.change
    assert finding.where[0].line == 27
    assert span(finding) == (1_400_000, 3_800_000)


def test_rows_of_a_few_classes_are_left_out(look):
    few = replace(ROWS, made_ns=40_000, layer_ns=50_000)
    assert look("one-hot-lookup", lookups=(few,)) == ()


SUMS = OneHotSum(240, 1_440, MS, MS, True, PLACES)


def test_sums_by_a_product_with_one_hot_rows_cost_the_gradient_too(look):
    (finding,) = look("one-hot-sum", sums=(SUMS,))
    assert finding.title.startswith("1440 rows of 240 zeros and ones sum what belongs together")
    assert "x.new_zeros(240, *x.shape[1:]).index_add(0, index, x)" in finding.change
    assert finding.where[0].line == 27
    assert span(finding) == (1_400_000, 3_800_000)
    (alone,) = look("one-hot-sum", sums=(replace(SUMS, trained=False),))
    assert span(alone) == (1_100_000, 2_400_000)


def test_what_is_to_be_written_in_place_of_one_hot_rows_gives_the_same(look):
    torch = pytest.importorskip("torch")
    (finding,) = look("one-hot-sum", sums=(replace(SUMS, classes=16),))
    _, whole, _, *each = finding.change.splitlines()
    for shape, code in (((9,), whole), ((9, 3), whole), ((2, 9, 3), "\n".join(each))):
        x, index = torch.randn(*shape), torch.randint(0, 16, shape[: max(1, len(shape) - 1)])
        names = {"x": x, "index": index}
        exec(code, names)
        rows = torch.nn.functional.one_hot(index, 16).float()
        wanted = rows.transpose(-1, -2) @ x
        assert torch.allclose(names["sums"], wanted, atol=1e-5)


def test_a_few_sums_are_as_quick_by_a_product(look):
    assert look("one-hot-sum", sums=(replace(SUMS, classes=10),)) == ()
    assert look("one-hot-sum", sums=(replace(SUMS, made_ns=40_000, sum_ns=50_000),)) == ()


SCORES = UnusedScores(0.25, 96_000, MS, MS // 2, True, PLACES)


def test_scores_that_nobody_uses_cost_their_way_back_too(look):
    (finding,) = look("unused-scores", scores=(SCORES,))
    assert "if nothing else reads the rest (a metric, a callback)" in finding.advice
    assert finding.title == (
        "25.0% of what a linear layer gives is used: for the rest go 1.12 ms of the forward pass "
        "(11.2% of the step), and its backward pass"
    )
    # Three quarters of 1.5 ms, 1.5 to 3.5 times.
    assert span(finding) == (1_687_500, 3_937_500)
    (alone,) = look("unused-scores", scores=(replace(SCORES, trained=False),))
    assert span(alone) == (900_000, 1_350_000)


def test_a_few_unused_scores_are_left_out(look):
    assert look("unused-scores", scores=(replace(SCORES, layer_ns=100_000, after_ns=0),)) == ()


CHECKPOINTED = Checkpointed(MS, 10, 2**30, 2**32, PLACES)


def test_activations_that_fit_need_not_be_computed_again(look):
    finding = look("needless-checkpointing", checkpointed=CHECKPOINTED)
    assert finding.title == (
        "Checkpointed layers run twice: 1.00 ms of each step (10.0%), to drop at most 1.00 GiB "
        "where 4.00 GiB are free"
    )
    assert span(finding) == (800_000, 1_440_000)


def test_the_second_pass_takes_no_longer_than_a_steady_first_one(look):
    finding = look("needless-checkpointing", checkpointed=CHECKPOINTED, more={"forward": MS // 2})
    assert finding.evidence["again_ns"] == MS // 2
    assert span(finding) == (400_000, 840_000)


def test_activations_that_may_not_fit_are_rightly_dropped(look):
    tight = Checkpointed(MS, 10, 2**30, 2**30, PLACES)
    assert look("needless-checkpointing", checkpointed=tight) is None


def test_without_a_measured_memory_nobody_knows_whether_they_fit(look):
    gpu = Device(type="cuda")
    assert isinstance(
        look("needless-checkpointing", checkpointed=CHECKPOINTED, device=gpu), Abstained
    )


def test_attention_saves_what_the_trial_showed(look):
    unread = UnreadWeights(2, 2**20, 5 * MS, 3 * MS, PLACES)
    finding = look("unread-attention-weights", unread=unread)
    assert "1.00 MiB, and 2.00 ms more time" in finding.title
    assert span(finding) == (1 * MS, 2_400_000)


def test_attention_that_is_no_faster_without_weights_stays(look):
    unread = UnreadWeights(2, 2**20, 3 * MS, 3 * MS, PLACES)
    assert look("unread-attention-weights", unread=unread) is None


def test_without_a_trial_the_memory_is_a_fact(look):
    unread = UnreadWeights(2, 2**20, None, None, PLACES)
    finding = look("unread-attention-weights", unread=unread)
    assert span(finding) == (0, 0)
    assert finding.severity is Severity.INFO


def test_padding_shrinks_what_takes_time_in_operators(look):
    row = {"name": "aten::mm", "count": 20, "total_ns": 10 * MS, "self_ns": 10 * MS}
    finding = look("padded-batches", (IDS,), lengths=(100,), trace={"operators": [row]})
    assert finding.title.startswith("40.0% of the positions of batch[0] are padding")
    assert (finding.where[0].file, finding.where[0].line) == ("train.py", 27)
    # 5 ms of operators: 0.4 of them, of that 0.7 less a fifth; and 1 - 0.6 ** 2 of them, a fifth
    # more.
    assert span(finding) == (1_120_000, 3_840_000)
    more = {"data_wait": 2 * MS}
    finding = look("padded-batches", (IDS,), lengths=(100,), trace={"operators": [row]}, more=more)
    # A batch that is shorter by 0.4 may take as much less to make.
    assert span(finding) == (1_120_000, 3_840_000 + 800_000)


@pytest.mark.parametrize(("kept_frac", "explained"), [(0.45, True), (0.1, False)])
def test_scores_that_nobody_uses_are_the_paddings_where_most_others_are_used(
    look, kept_frac, explained
):
    tiny = replace(SCORES, kept_frac=0.1, layer_ns=20_000, after_ns=0)
    scores = (replace(SCORES, kept_frac=kept_frac), tiny)
    finding = look("padded-batches", (IDS,), lengths=(100,), scores=scores)
    assert finding.explains == (("unused-scores",) if explained else ())


@pytest.mark.parametrize(
    ("padded", "seen"),
    [
        (IDS, {"lengths": (64,)}),  # no layer is given so many positions
        (IDS, {"lengths": (100,), "packs": True}),
        (Padding("0", "ids", 4, (100, 100), (95, 96)), {"lengths": (100,)}),
        (Padding("0", "ids", 4, (100, 100), (80, 80)), {"lengths": (100,)}),  # always the same
        (Padding("0", "vectors", 4, (100, 100), (80, 85)), {"lengths": (100,)}),
    ],
)
def test_what_may_be_needed_is_no_padding(look, padded, seen):
    assert look("padded-batches", (padded,), **seen) is None


def test_what_reaches_furthest_is_needed(look):
    words = Padding("words", "ids", 4, (100, 100), (100, 99))
    assert look("padded-batches", (IDS, words), lengths=(100,)) is None


def test_without_a_trace_nothing_is_the_least_that_shorter_batches_save(look):
    assert span(look("padded-batches", (IDS,), lengths=(99,))) == (0, 6_400_000)


def test_on_a_gpu_the_hosts_clock_gives_no_least_saving(look):
    gpu = Device(type="cuda")
    penalty = Penalty(1_000, MS, PLACES)
    assert look("penalty-in-loss", penalty=penalty, device=gpu).saving_ns.low == 0
    seen = {"separate": (TABLES,), "lookups": (ROWS,), "scores": (SCORES,), "sums": (SUMS,)}
    for rule in ("separate-layers", "one-hot-lookup", "one-hot-sum", "unused-scores"):
        (finding,) = look(rule, device=gpu, **seen)
        assert finding.saving_ns.low == 0


LINKS = SparseProduct(2, (2_000, 2_000), 0.004, 2 * MS, 5 * MS, MS, "csr", PLACES)


def test_a_dense_product_with_zeros_is_told_by_a_trial(look):
    (finding,) = look("dense-sparse-matmul", products=(LINKS,))
    assert finding.title.startswith("A matrix of 2,000 x 2,000, 99.6% of it zeros, is multiplied")
    assert span(finding) == (2_400_000, 5_600_000)
    assert finding.change.startswith("A = A.to_sparse_csr()  # once")
    assert look("dense-sparse-matmul", products=(replace(LINKS, sparse_ns=5 * MS),)) == ()


GELU = WrittenActivation('gelu(x, approximate="tanh")', 4, 8, 10**6, MS, 5 * MS, MS, PLACES)


def test_an_activation_that_is_written_out_is_told_by_a_trial(look):
    (finding,) = look("unfused-activation", activations=(GELU,))
    assert finding.title.startswith(
        'gelu(x, approximate="tanh") is written out in 8 functions, 4 times a step: 4.00 ms more'
    )
    assert span(finding) == (2_400_000, 6_000_000)
    assert finding.change == 'y = torch.nn.functional.gelu(x, approximate="tanh")'
    assert finding.where[0].line == 27
    (on_gpu,) = look("unfused-activation", activations=(GELU,), device=Device(type="cuda"))
    assert on_gpu.saving_ns.low == 0


def test_one_that_is_as_fast_written_out_is_not(look):
    assert look("unfused-activation", activations=(replace(GELU, fused_ns=4_950_000),)) == ()


@pytest.mark.parametrize("finding_id", EVERY)
def test_a_model_that_does_nothing_of_this_has_nothing_to_report(look, finding_id):
    assert not look(finding_id)


@pytest.mark.parametrize("finding_id", [*EVERY, "padded-batches"])
def test_without_a_look_it_abstains(judge, finding_id):
    notes = [Note(step=1, name=PADDING_NOTE, value=(IDS,))]
    assert isinstance(judge(finding_id, PHASES, records=notes), Abstained)
