"""Records what the Trainer keeps of every batch of `predict`."""

from typing import Any

from typing_extensions import override

from lightning_gpuprof.adapters.lightning import keeps_predictions
from lightning_gpuprof.recorders.recorder import Recorder
from lightning_gpuprof.records.facts import KeptPredictions
from lightning_gpuprof.tensors import array_bytes, held_bytes


class KeptPredictionsRecorder(Recorder):
    """Records how much memory the outputs hold that the Trainer keeps until `predict` ends.

    Costs: about 20 us, once.
    Touches: nothing. It reads the sizes of tensors.
    When: the end of the first batch of `predict`.
    """

    @override
    def on_first_batch_end(self, trainer: Any, outputs: Any, batch: Any) -> None:
        if self._context is None or self._context.stage != "predict":
            return
        returned, writer = keeps_predictions(trainer)
        if returned or writer is not None:
            self._context.write(
                KeptPredictions(held_bytes(outputs), array_bytes(outputs), returned, writer)
            )
