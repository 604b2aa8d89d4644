"""Times how long a rank waits in collective operations, where it waits."""

from collections.abc import Callable
from functools import wraps
from threading import get_ident
from typing import Any

from typing_extensions import override

from lightning_gpuprof.adapters.collectives import waiting_functions
from lightning_gpuprof.recorders.recorder import Recorder
from lightning_gpuprof.records.phases import COLLECTIVES
from lightning_gpuprof.runtime.context import TimedPart
from lightning_gpuprof.runtime.guard import guarded
from lightning_gpuprof.runtime.hooks import HookDispatcher
from lightning_gpuprof.runtime.wrap import Wrappers


class CollectiveWaits(Recorder):
    """Times the waits for collective operations as a part of the phase in which they occur.

    `fully_shard` gathers weights within the forward pass and reduces gradients within the backward
    pass, tensor parallelism reduces activations in both, and a program may make collectives of its
    own. A rank that comes early waits there for the others. This recorder times each wait on the
    host and, if there are marks, on the device. It starts no collective. The exchange of DDP waits
    in C++, and `GradientSync` times it.

    Costs: 1.3 us per collective, in steps that are timed by phase; 0.1 us in other steps.
    Touches: `torch.distributed.Work.wait` and, with tensor parallelism or with `fully_shard` on a
        GPU, the functions of torch that wait there: they are wrapped during training with several
        ranks. No hook of torch is called where a rank waits in a collective (docs/adr/0060).
    When: training with several ranks.
    """

    def __init__(self) -> None:
        self._wrappers = Wrappers()
        self._part: TimedPart | None = None
        self._thread = 0
        self._is_open = False

    @override
    def on_train_start(self, trainer: Any, hooks: HookDispatcher) -> None:
        self.release()
        timing = self._timing
        if trainer.world_size < 2 or timing is None or not timing.running:
            return
        self._part, self._thread = timing.part(COLLECTIVES), get_ident()
        on_device = trainer.strategy.root_device.type != "cpu"
        for owner, name in waiting_functions(trainer.lightning_module, on_device=on_device):
            self._wrappers.replace(owner, name, self._timed)

    def _timed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def wait_for_ranks(*args: Any, **kwargs: Any) -> Any:  # the name tells samples of stacks
            # A wait inside another one is a part of it. Other threads, such as one that writes a
            # checkpoint, do not hold up the step.
            part = self._part
            skips = part is None or not part.timed or self._is_open
            if skips or get_ident() != self._thread:
                return original(*args, **kwargs)
            self._begin()
            try:
                return original(*args, **kwargs)
            finally:
                self._end()

        return wait_for_ranks

    @guarded
    def _begin(self) -> None:
        if self._part is not None:
            self._is_open = True
            self._part.__enter__()

    @guarded
    def _end(self) -> None:
        if self._is_open and self._part is not None:
            self._is_open = False
            self._part.__exit__(None, None, None)

    @override
    def on_train_end(self, trainer: Any) -> None:
        self.release()

    @override
    def release(self) -> None:
        self._wrappers.restore()
        if self._is_open and self._part is not None:
            self._is_open = False
            self._part.__exit__(None, None, None)
        self._part = None
