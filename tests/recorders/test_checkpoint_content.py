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
    assert (content.frozen_bytes, content.buffer_bytes) == (32, 400)
    assert content.largest_buffer == ("vectors", 400)
    # Adam: two states like the weights, and a count of steps for each of the two tensors.
    assert content.whole_bytes == 264 + 432 + 2 * 264 + 2 * 4


def test_a_buffer_that_is_not_saved_takes_nothing(tmp_path):
    _, content = noted(tmp_path, Matcher(persistent=False))

    assert content.buffer_bytes == 0
    assert content.largest_buffer is None


def test_a_checkpoint_of_weights_alone_is_not_told(tmp_path):
    assert noted(tmp_path, Matcher(), save_weights_only=True) == ([], None)


class Refusing(torch.Tensor):
    """Has no answer for any function, as a `ShardedTensor` for most."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        raise RuntimeError(f"{func} is not supported")


def test_tensors_that_refuse_functions_have_a_size():
    saved = {"state_dict": {"weight": torch.zeros(3).as_subclass(Refusing)}}
    assert checkpoint_content(torch.nn.Linear(2, 1), saved).whole_bytes == 12
