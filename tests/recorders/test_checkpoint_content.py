import sys
from collections import UserDict

import numpy as np
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.demos.boring_classes import BoringModel

from lightning_gpuprof.callbacks.run_facts import RunFacts
from lightning_gpuprof.recorders.checkpoint_content import checkpoint_content
from lightning_gpuprof.records.facts import CheckpointContent
from lightning_gpuprof.records.reader import read_run


class Matcher(BoringModel):
    """66 trained values, 8 frozen ones, and 100 in a buffer that is saved or is not."""

    def __init__(self, *, persistent=True):
        super().__init__()
        self.register_buffer("vectors", torch.zeros(100), persistent=persistent)
        self.frozen = torch.nn.Linear(8, 1, bias=False).requires_grad_(False)

    def configure_optimizers(self):
        return torch.optim.Adam(self.layer.parameters(), lr=1e-3)


def noted(tmp_path, model, **options):
    saving = ModelCheckpoint(tmp_path / "saved", every_n_train_steps=1, save_top_k=-1, **options)
    trainer = Trainer(
        callbacks=[RunFacts(), saving], max_steps=4, limit_val_batches=0, accelerator="cpu",
        default_root_dir=tmp_path, logger=False, enable_progress_bar=False,
        enable_model_summary=False, enable_checkpointing=True,
    )  # fmt: skip
    trainer.fit(model)
    (run,) = {path.parents[2] for path in tmp_path.glob("**/rank0.jsonl")}
    (session,) = read_run(str(run))[0].sessions
    found = session.all(CheckpointContent)
    return found, session.last(CheckpointContent)


def test_a_checkpoints_bytes_are_told_by_what_they_are_once(tmp_path):
    notes, content = noted(tmp_path, Matcher())

    assert len(notes) == 1
    assert (content.trained_bytes, content.frozen_bytes, content.buffer_bytes) == (264, 32, 400)
    # Two states like the weights, and a count of steps for each of the two tensors.
    assert content.optimizer_bytes == 2 * 264 + 2 * 4
    assert content.largest_buffers == (("vectors", 400),)
    assert content.largest_frozen == "frozen.weight"
    assert content.whole_bytes == 264 + 432 + 536


def test_a_buffer_that_is_not_saved_takes_nothing(tmp_path):
    _, content = noted(tmp_path, Matcher(persistent=False))

    assert content.buffer_bytes == 0
    assert content.largest_buffers == ()


def test_a_checkpoint_of_weights_alone_is_not_told(tmp_path):
    assert noted(tmp_path, Matcher(), save_weights_only=True) == ([], None)


class Keeping(Matcher):
    """Has kept what it was given, a table among it."""

    def __init__(self, width, table, net):
        super().__init__()
        self.save_hyperparameters(logger=False)


def test_what_hyperparameters_take_is_told_with_the_largest(tmp_path):
    net, table = torch.nn.Linear(4, 4, bias=False), np.zeros((50, 20))
    _, content = noted(tmp_path, Keeping(8, table, net))

    assert content.largest_hparams[:2] == (("table", 8_000), ("net", 64))
    assert content.hparams_bytes == 8_000 + 64 + sys.getsizeof(8)
    assert content.fixed_bytes == 432 + content.hparams_bytes


def added(**hparams):
    """Return the bytes that hyperparameters add to the checkpoint of a layer of 40 bytes."""
    layer = hparams.get("layer", torch.nn.Linear(9, 1))
    saved = {"state_dict": layer.state_dict(), "hyper_parameters": hparams}
    content = checkpoint_content(layer, saved)
    assert content.trained_bytes == 40
    return content.hparams_bytes


def test_what_the_weights_hold_already_is_written_once(tmp_path):
    layer = torch.nn.Linear(9, 1)
    assert added(layer=layer, weight=layer.weight[0], parts=[layer]) == 0
    table = torch.zeros(100)
    assert added(layer=layer, table=table, again={"rows": table.view(10, 10)}) == 400
    array = np.zeros(100)
    assert added(array=array, again=array) == 800


class Counting(dict):
    """Tells how many of its values were asked for."""

    asked = 0

    def values(self):
        for value in super().values():
            self.asked += 1
            yield value


def test_of_a_large_mapping_the_first_values_stand_for_all():
    table = Counting((key, torch.zeros(2)) for key in range(5_000))
    assert added(table=table) == 5_000 * 8
    assert table.asked <= 1_001


def test_what_holds_itself_is_counted_once():
    ring = [torch.zeros(2)]
    ring.append(ring)
    assert added(ring=ring) == 8


class Missing(UserDict):
    """A configuration with a value that must be given and was not."""

    def __getitem__(self, key):
        raise ValueError(f"mandatory value {key} is missing")


def test_hyperparameters_that_cannot_be_read_leave_the_rest_told():
    layer = torch.nn.Linear(9, 1)
    saved = {"state_dict": layer.state_dict(), "hyper_parameters": Missing(a=1)}
    content = checkpoint_content(layer, saved)
    assert (content.trained_bytes, content.hparams_bytes) == (40, None)
    assert content.whole_bytes == 40


class Refusing(torch.Tensor):
    """Has no answer for any function, as a `ShardedTensor` for most."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        raise RuntimeError(f"{func} is not supported")


def test_tensors_that_refuse_functions_have_a_size():
    saved = {"state_dict": {"weight": torch.zeros(3).as_subclass(Refusing)}}
    assert checkpoint_content(torch.nn.Linear(2, 1), saved).trained_bytes == 12
