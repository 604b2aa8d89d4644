"""Has Kineto detach CUPTI from the GPU when the last recording of a session stops.

CUPTI makes every launch a little slower while it is attached. Kineto detaches it only if the
environment variable TEARDOWN_CUPTI is "1", and reads the variable at three moments
(pytorch/kineto, libkineto/src/CuptiActivityApi.cpp):
    when a recording stops (`teardownContext`): a thread then detaches CUPTI within the program's
        next CUDA call
    in that thread, afterwards: if it is no longer set, callbacks are attached again at once
    when a later recording begins (`enableCuptiActivities`): callbacks that were detached are
        attached again only if it is set

Therefore the variable is set right before the last stop and stays set: without it, a later
recording of the process might lack its GPU events.

Names in torch 2.2 to 2.13. Without them, CUDA graphs count as in use:
    torch.version.cuda, torch.cuda.CUDAGraph
    torch._TorchCompileInductorWrapper.config, of every backend object of torch.compile
    torch._inductor.config.triton.cudagraphs
"""

import gc
import os
import sys
from collections.abc import Callable, MutableMapping
from typing import Any

import torch

VARIABLE = "TEARDOWN_CUPTI"
_SETTINGS = (VARIABLE, "DISABLE_CUPTI_LAZY_REINIT")
"""The environment variables by which a program decides about this itself."""
LEAST_CUDA = (12, 6)
"""Before, detaching CUPTI beside CUDA graphs crashed (pytorch/pytorch#146604, #150957)."""
GRAPHS = "the program uses CUDA graphs, beside which torch documents crashes"


def cuda_version() -> tuple[int, ...] | None:
    """Return the version of CUDA that torch was built with; None without CUDA, as with ROCm."""
    version = torch.version.cuda
    return None if version is None else tuple(int(part) for part in version.split(".")[:2])


def uses_cuda_graphs() -> bool:
    """Return whether a CUDA graph exists, or torch.compile was told to make some.

    Goes through all objects of the process: 0.1 s with torch and Lightning imported.
    """
    inductor = sys.modules.get("torch._inductor.config")
    triton = getattr(inductor, "triton", None)
    if getattr(triton, "cudagraphs", inductor is not None):
        return True
    graph: Any = getattr(torch.cuda, "CUDAGraph", None)
    backend: Any = getattr(torch, "_TorchCompileInductorWrapper", None)
    if graph is None or backend is None:
        return True
    objects = gc.get_objects()
    kinds = set(map(type, objects))
    if any(issubclass(kind, graph) for kind in kinds):
        return True
    backends = {kind for kind in kinds if issubclass(kind, backend)}
    return bool(backends) and any(
        type(item) in backends and item.config.get("triton.cudagraphs", False) for item in objects
    )


class CuptiTeardown:
    """Detaches CUPTI behind the last profiler window, so that launches cost what they did before.

    Costs: 0.1 s before the last window is closed, for a look at all Python objects: among them
        are the CUDA graphs. Nothing in any other step.
    Touches: sets the environment variable TEARDOWN_CUPTI to 1, by which Kineto detaches CUPTI. It
        stays set after training, since Kineto reads it again when a later profiler of the process
        begins, which might lack its GPU events otherwise. Before a window that is not the last it
        is removed again. Nothing is set without CUDA 12.6 or newer, where the program has set this
        variable or DISABLE_CUPTI_LAZY_REINIT itself, or while CUDA graphs are in use
        (`torch.cuda.CUDAGraph`, torch.compile's `reduce-overhead` or `triton.cudagraphs`).
    When: the end of the last profiler window, if it is switched on.
    Switch: teardown="off" ("auto", the default, is off until a device has proven it)

    Args:
        environment: The environment variables; tests pass a dict.
        cuda: Returns the version of CUDA, or None; tests pass a fake.
        graphs: Returns whether CUDA graphs are in use; tests pass a fake.
    """

    def __init__(
        self,
        environment: MutableMapping[str, str] = os.environ,
        *,
        cuda: Callable[[], tuple[int, ...] | None] = cuda_version,
        graphs: Callable[[], bool] = uses_cuda_graphs,
    ) -> None:
        self._environment = environment
        self._cuda = cuda
        self._graphs = graphs
        self._is_ours = False

    def before_stop(self, *, last: bool) -> str | None:
        """Decide, right before a recording stops, whether CUPTI is detached behind it.

        Returns why it stays attached behind the last recording; None if it does not.
        """
        if self._is_ours and self._environment.get(VARIABLE) == "1":
            del self._environment[VARIABLE]
        self._is_ours = False
        if not last:
            return None
        obstacle = self._obstacle()
        if obstacle is None:
            self._environment[VARIABLE] = "1"
            self._is_ours = True
        return obstacle

    def _obstacle(self) -> str | None:
        for name in _SETTINGS:
            if name in self._environment:
                return f"{name} is set in the environment, which decides"
        version = self._cuda()
        if version is None:
            return "torch was built without CUDA"
        if version < LEAST_CUDA:
            numbers = ".".join(map(str, version))
            return f"it is safe from CUDA 12.6 on, and torch was built with CUDA {numbers}"
        return GRAPHS if self._graphs() else None


TEARDOWN = CuptiTeardown()
"""Of this process, whose environment is one."""
PROVEN = False
"""Whether a device has shown that a job is as fast behind the window as before, and that a later
profiler records its GPU events: what `teardown="auto"` waits for."""
