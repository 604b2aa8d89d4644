import pytest
from rule_cases import H100, MS, WORK, op, span

from lightning_gpuprof.findings.engine import evaluate_rules
from lightning_gpuprof.findings.registry import rules
from lightning_gpuprof.records.facts import EmbeddingTable, EmbeddingTables

MIB = 2**20
PHASES = {**WORK, "optimizer_step": 10 * MS}


def tables(used=200, rows=200_000):
    return EmbeddingTables((EmbeddingTable("words", rows, 32, 80 * MIB, used),))


def model(name="Adagrad", megabytes=100, **facts):
    return {
        "dtypes": {"float32": 6},
        "parameter_bytes": megabytes * MIB,
        "optimizers": [{"class": name, **facts}],
    }


@pytest.fixture
def of_table(evaluate):
    def judged(table=None, *, phases=PHASES, **options):
        records = [tables() if table is None else table]
        return evaluate(phases, records=records, **{"model": model()} | options)

    return judged


def test_the_update_of_unused_rows_is_saved(of_table):
    finding = of_table()
    update_ns = round(0.8 * (1 - 200 / 200_000) * 10 * MS)
    assert span(finding) == (round(0.8 * update_ns), round(1.2 * update_ns))
    assert finding.title.startswith("words uses 200 of 200,000 rows, and all are updated")
    assert finding.change == "nn.Embedding(200000, 32, sparse=True)  # words"
    assert "which Adagrad takes." in finding.advice


def test_adam_needs_another_optimizer_for_the_table(of_table):
    advice = of_table(model=model("AdamW")).advice
    assert "torch.optim.SparseAdam" in advice
    assert "automatic_optimization = False" in advice


def test_weight_decay_does_not_go_with_sparse_gradients(of_table):
    assert "without weight decay" in of_table(model=model("SGD", weight_decay=0.1)).advice


def test_zeros_written_in_backward_are_saved_too(of_table):
    trace = {"operators": [op("aten::embedding_dense_backward", 2, 4 * MS)]}
    finding = of_table(trace=trace)
    assert finding.evidence["dense_backward_ns"] == 2 * MS
    assert finding.cause_ns.low == of_table().cause_ns.low + 2 * MS


def test_on_a_gpu_nothing_is_certain(of_table):
    assert of_table(device=H100).saving_ns.low == 0


def test_it_takes_the_place_of_a_fused_update(analyze):
    unfused = model("Adagrad") | {"dtypes": {"float32": 40}}
    run = analyze(PHASES, records=[tables()], model=unfused)
    asked = [rules()[name] for name in ("unfused-optimizer", "dense-embedding")]
    assert [finding.id for finding in evaluate_rules(run, asked).findings] == ["dense-embedding"]


@pytest.mark.parametrize(
    ("table", "megabytes"),
    [
        (tables(used=60_000), 100),  # also: weights tied to an output layer
        (tables(), 1_000),  # a small part of the model
        (EmbeddingTables(()), 100),
    ],
)
def test_is_silent_where_sparse_gradients_save_little(of_table, table, megabytes):
    assert of_table(table, model=model(megabytes=megabytes)) is None
