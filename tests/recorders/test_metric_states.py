import pytest
import torch
from lightning.pytorch import Callback
from lightning.pytorch.demos.boring_classes import BoringModel
from torchmetrics import MeanMetric, Metric, MetricCollection
from torchmetrics.classification import BinaryAUROC

from lightning_gpuprof.adapters import metrics
from lightning_gpuprof.callbacks.run_facts import RunFacts
from lightning_gpuprof.recorders.metric_states import MetricStatesRecorder
from lightning_gpuprof.records.facts import MetricState, MetricStates

BATCH = 4_000 * (8 + 8)
"""Predictions as float64 and targets as int64 of an update."""


class Scored(BoringModel):
    logs = resets = False

    def __init__(self):
        super().__init__()
        self.auc, self.mean = BinaryAUROC(), MeanMetric()

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)["loss"]
        scores = torch.rand(4_000, dtype=torch.float64)
        self.auc.update(scores, scores.round().long())
        self.mean.update(loss)
        if self.logs:
            self.log("auc", self.auc, on_step=False, on_epoch=True)
        return loss

    def on_train_epoch_end(self):
        if self.resets:
            self.auc.reset()


@pytest.fixture
def fit(session_of):
    def fitted(model, *more, **options):
        recorder = RunFacts([MetricStatesRecorder()])
        return session_of(model, recorder, *more, **{"limit_train_batches": 60, **options})

    return fitted


def test_a_metric_that_keeps_all_values_is_recorded_with_its_name_and_size(fit):
    states = fit(Scored(), max_epochs=2).last(MetricStates)
    assert states.metrics == (
        MetricState("self.auc", "BinaryAUROC", 120, 120 * BATCH, lacks_thresholds=True),
    )


@pytest.mark.parametrize("cure", ["logs", "resets"])
def test_a_metric_that_is_logged_or_reset_counts_where_it_was_largest(fit, cure):
    model = Scored()
    setattr(model, cure, True)
    [state] = fit(model).last(MetricStates).metrics
    assert (state.was_reset, state.updates) == (True, 51)


class Losses(Metric):
    def __init__(self):
        super().__init__()
        self.add_state("losses", default=[])

    def update(self, loss):
        self.losses.append(loss)

    def compute(self):
        return torch.stack(self.losses).mean()


class KeepsLosses(BoringModel):
    def __init__(self, *, detached):
        super().__init__()
        self.detached, self.kept = detached, Losses()

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)["loss"]
        self.kept.update(loss.detach() if self.detached else loss)
        return loss


@pytest.mark.parametrize("detached", [False, True])
def test_values_with_their_graph_are_recorded_as_such(fit, detached):
    [state] = fit(KeepsLosses(detached=detached)).last(MetricStates).metrics
    assert state.holds_graph is not detached
    assert not state.lacks_thresholds


class Scoring(Callback):
    def __init__(self):
        self.score = BinaryAUROC()
        self.collected = MetricCollection({"bounded": BinaryAUROC(thresholds=9)})
        self.listed = [BinaryAUROC()]


def test_metrics_of_callbacks_and_in_lists_are_found(fit):
    states = fit(BoringModel(), Scoring(), limit_train_batches=2).last(MetricStates)
    assert {state.name for state in states.metrics} == {"Scoring.score", "Scoring.listed[0]"}


def test_without_such_metrics_nothing_is_recorded(fit):
    assert fit(BoringModel(), limit_train_batches=2).last(MetricStates) is None


def test_the_names_in_the_adapters_table_are_those_of_torchmetrics():
    metric = BinaryAUROC()
    assert all(hasattr(metric, n) for n in (metrics.STATES, metrics.UPDATE_COUNT))
    assert getattr(metric, metrics.THRESHOLDS) is None
    assert metrics.list_states(metric) == ["preds", "target"]
    assert metrics.list_states(BinaryAUROC(thresholds=9)) == []
