from lightning.pytorch.demos.boring_classes import BoringModel

from lightning_gpuprof import BatchSizeAdvisor, GpuProfCallback
from lightning_gpuprof.records.schema import Note


def test_the_advisor_is_left_out_as_the_documentation_has_it(session_of):
    """On a CPU all that is seen of it is the note that it measures nothing."""

    def notes(callback):
        session = session_of(BoringModel(), callback, limit_train_batches=6)
        return {note.name for note in session.all(Note)}

    settings = {"console": False, "trace": False, "report": False, "lines": False}
    assert "vram-not-measured" in notes(GpuProfCallback(**settings))

    callback = GpuProfCallback(**settings)
    callback.parts = [part for part in callback.parts if not isinstance(part, BatchSizeAdvisor)]
    assert "vram-not-measured" not in notes(callback)
