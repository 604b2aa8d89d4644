"""What `predict_step` returns is sampled if asked for, and two runs are compared by it."""

import pytest
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader

from lightning_gpuprof import GpuProfCallback
from lightning_gpuprof.recorders.predict_outputs import MOST_VALUES, checksum, some_values
from lightning_gpuprof.records.facts import PredictOutputs
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.report.build_comparison import NO_OUTPUTS
from lightning_gpuprof.report.comparison import compare_runs
from lightning_gpuprof.report.console import render


class Model(BoringModel):
    shift = 0.0

    def predict_step(self, batch, batch_idx):
        logits = self.layer(batch) + self.shift
        return {"logits": logits, "best": [logits.argmax(dim=1)], "note": "text"}


@pytest.fixture
def predict(tmp_path):
    def predicted(name, *, shift=0.0, **options):
        torch.manual_seed(0)
        quiet = {"trace": False, "lines": False, "report": False, "console": False}
        recording = GpuProfCallback(**quiet, **options)
        logger = CSVLogger(tmp_path, name=name)
        trainer = Trainer(logger=logger, callbacks=[recording], enable_progress_bar=False)
        model = Model()
        model.shift = shift
        trainer.predict(model, DataLoader(RandomDataset(32, 40), batch_size=2))
        return f"{logger.log_dir}/predict"

    return predicted


def test_each_tensor_of_sampled_batches_is_recorded(predict):
    run = predict("a", outputs=True)
    samples = read_run(run)[0].sessions[0].last(PredictOutputs).samples
    assert {sample.name for sample in samples} == {"logits", "best.0"}
    assert [sample.batch for sample in samples if sample.name == "logits"] == [*range(17)]
    assert samples[0].shape == (2, 2)
    assert len(samples[0].values) == 4


def test_nothing_is_recorded_unless_asked_for(predict):
    assert read_run(predict("a"))[0].sessions[0].last(PredictOutputs) is None


def test_equal_runs_agree_bit_for_bit(predict):
    runs = predict("a", outputs=True), predict("b", outputs=True, facts=False)
    document = compare_runs(*runs).document()
    rows = {row["name"]: row for row in document.rows("values")}
    assert {name: row["equal"] for name, row in rows.items()} == {
        "output logits": 17,
        "output best.0": 17,
    }
    assert document.figure("values_same") is True


def test_another_result_is_a_difference_with_its_size(predict):
    runs = predict("a", outputs=True), predict("b", outputs=True, shift=10.0)
    row = compare_runs(*runs).document().rows("values")[0]
    assert (row["name"], row["same"], row["equal"], row["first_step"]) == (
        "output logits", False, 0, 0,
    )  # fmt: skip
    assert row["max_diff"] > 1


def test_where_nothing_was_recorded_the_page_says_how_to(predict):
    text = render(compare_runs(predict("a", outputs=True), predict("b")).document())
    assert "outputs=True" in text
    assert "GpuProfCallback(outputs=True)" in NO_OUTPUTS


@pytest.mark.parametrize("dtype", [torch.bool, torch.bfloat16, torch.float32, torch.complex64])
def test_a_checksum_changes_with_a_single_bit(dtype):
    tensor = torch.zeros(5, 4, dtype=dtype).T
    changed = tensor.clone()
    changed[2, 3] = 1
    assert int(checksum(tensor)) == 0
    assert int(checksum(changed)) > 0


def test_values_are_taken_at_equal_distances():
    assert some_values(torch.arange(10)).tolist() == [*range(10)]
    assert len(some_values(torch.zeros(1_000, 7))) <= MOST_VALUES
    assert some_values(torch.tensor(3.0)).tolist() == [3.0]
