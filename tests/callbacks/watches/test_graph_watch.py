import re
from functools import partial

import pytest
import torch
from lightning.pytorch.demos.boring_classes import BoringModel

from lightning_gpuprof.callbacks.watches import graph_watch
from lightning_gpuprof.callbacks.watches.graph_watch import GraphWatch
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.records.debugging import anomaly_mode
from lightning_gpuprof.records.module_calls import CallPlace
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


def mode_of(noted):
    return anomaly_mode(Note(step=0, name=name, value=value) for name, value in noted)


def test_anomaly_mode_is_noted_from_the_trainer_and_from_torch(notes):
    mode = mode_of(notes(BoringModel(), detect_anomaly=True))
    assert (mode.forward, mode.backward) == (True, True)

    class Own(BoringModel):
        def training_step(self, batch, batch_idx):
            torch.autograd.set_detect_anomaly(True)
            return super().training_step(batch, batch_idx)

    try:
        mode = mode_of(notes(Own()))
        assert (mode.forward, mode.backward) == (True, True)
    finally:
        torch.autograd.set_detect_anomaly(False)


class InBackward(BoringModel):
    def backward(self, loss, *args, **kwargs):
        with torch.autograd.set_detect_anomaly(True):
            loss.backward()


class InForward(BoringModel):
    def training_step(self, batch, batch_idx):
        with torch.autograd.set_detect_anomaly(True):
            return super().training_step(batch, batch_idx)


class InBoth(BoringModel):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        with torch.autograd.set_detect_anomaly(True):
            self.manual_backward(self.step(batch))


@pytest.mark.parametrize(
    ("model", "passes"),
    [(InBackward, (False, True)), (InForward, (True, False)), (InBoth, (True, True))],
)
def test_anomaly_mode_of_one_pass_is_noted_with_its_line(notes, monkeypatch, model, passes):
    line = "with torch.autograd.set_detect_anomaly(True):"
    monkeypatch.setattr(graph_watch, "own_line_like", partial(place_if_like, line))
    mode = mode_of(notes(model()))
    assert (mode.forward, mode.backward) == passes
    assert mode.place.source == line


def place_if_like(line, pattern):
    return CallPlace("train.py", 7, "", line) if re.search(pattern, line) else None


@pytest.mark.parametrize(
    ("line", "switches"),
    [
        ("trainer = L.Trainer(max_epochs=3, detect_anomaly=True)", True),
        ("with autograd.detect_anomaly(check_nan=False):", True),
        ("torch.set_anomaly_enabled(True)", True),
        ("torch.autograd.set_detect_anomaly(False)", False),
        ("from torch.autograd import set_detect_anomaly", False),
        ("Trainer(detect_anomaly=False)", False),
    ],
)
def test_lines_that_switch_anomaly_mode_on_are_known(notes, monkeypatch, line, switches):
    monkeypatch.setattr(graph_watch, "own_line_like", partial(place_if_like, line))
    assert (mode_of(notes(InBackward())).place is not None) == switches


class OnIn(BoringModel):
    def __init__(self, batches):
        super().__init__()
        self.batches = batches

    def training_step(self, batch, batch_idx):
        with torch.autograd.set_detect_anomaly(batch_idx in self.batches):
            return super().training_step(batch, batch_idx)


@pytest.mark.parametrize(
    ("batches", "said"),
    [
        ((0,), []),  # a check of the first batch
        ((0, 2, 4), []),
        ((0, 1), [True, False]),
        ((2, 3, 4, 5), [True]),
        ((0, 1, 3, 4, 5), [True]),
    ],
)
@pytest.mark.parametrize("every", [1, 2])
def test_anomaly_mode_is_noted_of_two_batches_in_a_row_and_so_is_its_end(
    notes, batches, said, every
):
    noted = [value for name, value in notes(OnIn(batches), every=every) if name == "anomaly_mode"]
    assert [bool(value) for value in noted] == said
    assert (mode_of([("anomaly_mode", value) for value in noted]) is not None) == (said == [True])


def test_while_anomaly_mode_is_on_it_is_looked_at_more_often(notes, monkeypatch):
    monkeypatch.setattr(graph_watch, "AGAIN", 2)
    noted = [bool(value) for name, value in notes(OnIn((0, 1)), every=9) if name == "anomaly_mode"]
    assert noted == [True, False]


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
