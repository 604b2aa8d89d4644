import pytest
import torch
from lightning.pytorch.demos.boring_classes import BoringModel

from lightning_gpuprof.callbacks.watches.graph_watch import GraphWatch
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.records.schema import Note


@pytest.fixture
def notes(session_of):
    def noted(model, *, every=1, **options):
        session = session_of(model, GraphWatch(every=every), limit_train_batches=6, **options)
        return [(note.name, note.value) for note in session.all(Note)]

    return noted


class Retains(BoringModel):
    def backward(self, loss, *args, **kwargs):
        loss.backward(retain_graph=True)


class ByHand(BoringModel):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        loss = self.step(batch)
        self.manual_backward(loss, retain_graph=batch_idx == 3)


def test_a_plain_run_notes_nothing(notes):
    assert notes(BoringModel()) == [("kept_graphs", False)]


def test_a_kept_graph_is_noted_once(notes):
    assert ("retained_graph", True) in notes(Retains())
    assert len(notes(Retains())) == 2


def test_a_graph_kept_by_hand_in_one_step_is_noted_where_that_step_is_looked_at(notes):
    assert ("retained_graph", True) in notes(ByHand())
    assert ("retained_graph", True) not in notes(ByHand(), every=5)


def test_anomaly_mode_is_noted_from_the_trainer_and_from_torch(notes):
    assert ("anomaly_mode", True) in notes(BoringModel(), detect_anomaly=True)

    class Own(BoringModel):
        def training_step(self, batch, batch_idx):
            torch.autograd.set_detect_anomaly(True)
            return super().training_step(batch, batch_idx)

    try:
        assert ("anomaly_mode", True) in notes(Own())
    finally:
        torch.autograd.set_detect_anomaly(False)


class KeepsLosses(BoringModel):
    def __init__(self, *, detached=False, most=None):
        super().__init__()
        self.losses, self.detached, self.most = [], detached, most

    def training_step(self, batch, batch_idx):
        loss = self.step(batch)
        self.losses.append(loss.detach() if self.detached else loss)
        self.losses = self.losses[-self.most :] if self.most else self.losses
        return loss


def test_graphs_that_outlive_their_step_are_noted(notes):
    assert notes(KeepsLosses()) == [("kept_graphs", True)]


def test_detached_losses_and_those_of_the_last_step_are_no_kept_graphs(notes):
    assert notes(KeepsLosses(detached=True)) == [("kept_graphs", False)]
    assert notes(KeepsLosses(most=1)) == [("kept_graphs", False)]


def test_looking_never_is_refused():
    with pytest.raises(ConfigError, match="would never look"):
        GraphWatch(every=0)
