"""Whether torch.autograd's anomaly detection was on while training ran."""

from collections.abc import Iterable

from msgspec import Struct

from lightning_gpuprof.records.code_place import CodePlace
from lightning_gpuprof.records.notes import last_noted
from lightning_gpuprof.records.schema import ANOMALY_NOTE, Note


class AnomalyMode(Struct, frozen=True):
    """In which passes torch.autograd's anomaly detection was on.

    Args:
        forward: Nodes of the graph hold the stack that made them.
        backward: It was on while the backward pass ran.
        place: The line of the program that switched it on, where one looks like it.
    """

    forward: bool
    backward: bool
    place: CodePlace | None = None


def anomaly_mode(notes: Iterable[Note]) -> AnomalyMode | None:
    """Return the last note on anomaly detection; None where it was off by then.

    Older files only say that it was on.

    >>> anomaly_mode([Note(step=0, name=ANOMALY_NOTE, value=True)]).backward
    True
    """
    noted = [note for note in notes if note.name == ANOMALY_NOTE]
    if last_noted(noted, ANOMALY_NOTE, bool):
        return AnomalyMode(forward=True, backward=True)
    return last_noted(noted, ANOMALY_NOTE, AnomalyMode)
