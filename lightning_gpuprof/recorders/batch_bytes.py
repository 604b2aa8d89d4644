"""How many bytes a batch has."""

from typing import Any

from typing_extensions import override

from lightning_gpuprof.recorders.recorder import Recorder
from lightning_gpuprof.records.facts import BatchBytes as Record
from lightning_gpuprof.tensors import tensor_bytes


class BatchBytes(Recorder):
    """Adds up the bytes of the tensors in the first batch.

    Costs: some 10 us, once.
    Touches: nothing; it reads the sizes of the batch's tensors, not their values.
    When: the first batch's end.
    """

    @override
    def first_batch_ends(self, trainer: Any, batch: Any) -> None:
        if self._output is not None:
            self._output.write(Record(tensor_bytes(batch)))
