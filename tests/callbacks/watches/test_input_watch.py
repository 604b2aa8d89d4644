import pytest
from lightning.pytorch.demos.boring_classes import BoringModel

from lightning_gpuprof.callbacks.watches.input_watch import InputWatch
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.records.schema import INPUT_NOTE, Note


@pytest.fixture
def numbers(session_of):
    def noted(model, *, every=2, **options):
        session = session_of(model, InputWatch(every=every), **options)
        return [note.value for note in session.all(Note) if note.name == INPUT_NOTE]

    return noted


class Growing(BoringModel):
    def training_step(self, batch, batch_idx):
        return super().training_step(batch.repeat(batch_idx + 1, 1), batch_idx)


def test_how_much_steps_compute_with_is_noted_ever_more_seldom(numbers):
    # The model's only layer makes two numbers of each row.
    rows = [2 * (batch + 1) for batch in (0, 2, 4, 6, 8, 12, 16)]
    assert numbers(Growing(), limit_train_batches=18) == rows


class TwoLosses(BoringModel):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        for times in (1, 5):
            self.manual_backward(self.step(batch.repeat(times, 1)))


def test_of_several_losses_the_first_is_looked_at(numbers):
    assert numbers(TwoLosses(), limit_train_batches=3) == [2, 2]


class NoLoss(BoringModel):
    def training_step(self, batch, batch_idx):
        return None


def test_a_step_without_a_loss_is_waited_out(numbers):
    assert numbers(NoLoss(), limit_train_batches=3) == []


def test_looking_never_is_refused():
    with pytest.raises(ConfigError, match="would never look"):
        InputWatch(every=0)
