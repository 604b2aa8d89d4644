import pytest

from lightning_gpuprof.findings.model import Abstained, Severity
from lightning_gpuprof.findings.runner import evaluate_rules
from lightning_gpuprof.records.module_calls import TABLES_NOTE, CallPlace, EmbeddingUse
from lightning_gpuprof.records.schema import Device, Note

MS = 1_000_000
PHASES = {"forward": 4 * MS, "optimizer_step": 6 * MS}
PLACE = CallPlace("train.py", 27, "forward", "u, s = self.user(user), self.song(song)")
TABLES = [
    EmbeddingUse("user", 50_000, 16, 250, PLACE),
    EmbeddingUse("song", 30_000, 16, 150, PLACE),
]


def recorded(tables=TABLES, *, optimizer=None, **options):
    model = {
        "parameters": 1_600_000,  # 1,280,000 of them in the tables
        "dtypes": {"float32": 8},
        "optimizers": [optimizer or {"class": "Adagrad"}],
    }
    return {"records": [Note(step=1, name=TABLES_NOTE, value=tables)], "model": model, **options}


@pytest.fixture
def look(judge):
    def looked(tables=TABLES, **options):
        return judge("dense-embedding", PHASES, **recorded(tables, **options))

    return looked


def test_tables_of_which_a_batch_touches_few_rows_are_named(look):
    finding = look()
    assert finding.severity is Severity.CRITICAL
    assert finding.title.startswith(
        "Adagrad updates all 80,000 rows of self.user, self.song, of which a batch looks up 400: "
        "4.64 ms of each step"
    )
    assert finding.change.splitlines() == [
        "self.user = nn.Embedding(..., sparse=True)",
        "self.song = nn.Embedding(..., sparse=True)",
    ]
    assert finding.where[0].line == 27
    # 80 % of 6 ms, less 25 us per tensor; a fifth less or more, five or one in 200 rows, and what
    # a sparse gradient of each table takes.
    assert finding.evidence["dense_ns"] == 4_640_000
    low = round((1 - 5 / 200) * 3_712_000) - 600_000
    high = round((1 - 1 / 200) * 5_568_000) - 100_000
    assert (finding.saving_ns.low, finding.saving_ns.high) == (low, high)


def test_the_dense_gradients_own_time_counts(look):
    row = {"name": "aten::embedding_dense_backward", "count": 4, "total_ns": MS, "self_ns": MS}
    assert look(trace={"operators": [row]}).evidence["dense_ns"] == 4_640_000 + MS // 2


def test_adam_takes_another_optimizer(look):
    finding = look(optimizer={"class": "Adam"})
    assert "SparseAdam" in finding.change
    assert "SparseAdam" in finding.advice


def test_a_table_of_which_a_batch_touches_much_is_well_as_it_is(look):
    assert look([EmbeddingUse("word", 1_000, 64, 100)]) is None


@pytest.mark.parametrize(
    "options",
    [
        {"optimizer": {"class": "AdamW", "weight_decay": 0.01}},
        {"optimizer": {"class": "SGD", "momentum": 0.9}},
        {"trainer": {"gradient_clip_val": 1.0}},
    ],
)
def test_what_changes_every_row_anyway_is_left_alone(look, options):
    assert look(**options) is None


def test_on_a_gpu_the_hosts_clock_gives_no_least_saving(look):
    finding = look(device=Device(type="cuda"))
    assert finding.saving_ns.low == 0


@pytest.mark.parametrize(
    ("tables", "device", "optimizer", "told"),
    [
        (TABLES, "cpu", {"class": "Adagrad"}, "dense-embedding"),
        # Here sparse gradients may save nothing, and a fused update saves something for sure.
        ([EmbeddingUse("word", 1_000, 64, 90)], "cpu", {"class": "Adagrad"}, "unfused-optimizer"),
        (TABLES, "cuda", {"class": "Adagrad", "foreach": False}, "unfused-optimizer"),
        # And here a fused one may save nothing either.
        (TABLES, "cuda", {"class": "Adagrad"}, "dense-embedding"),
    ],
)
def test_the_optimizers_time_is_told_once(analyze, tables, device, optimizer, told):
    run = analyze(PHASES, **recorded(tables, optimizer=optimizer, device=Device(type=device)))
    found = evaluate_rules(run, ["dense-embedding", "unfused-optimizer"]).found
    assert [one.id for one in found] == [told]


def test_without_an_optimizers_time_it_abstains(judge):
    assert isinstance(judge("dense-embedding", {"forward": MS}), Abstained)
