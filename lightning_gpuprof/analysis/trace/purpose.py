"""Tells what a traced program does: it trains, or it computes results alone (inference)."""

import re
from collections.abc import Iterator

import numpy as np

from lightning_gpuprof.analysis.trace.grouping import used
from lightning_gpuprof.analysis.trace.host_calls import call_kind
from lightning_gpuprof.analysis.trace_tables import Purpose
from lightning_gpuprof.traces.timeline import Timeline, of_category

ENGINES = {
    "vLLM": r"(?:v2_)?gpu_model_runner: |execute_(?:context|new)_\d+|_?(?:vllm|C_cache_ops)::",
    "SGLang": r"step\[[A-Z_]+ |sgl_kernel::|sglang",
    "TensorRT-LLM": r"(?:\[Executor\] )?_forward_step \d+|(?:trtllm|tensorrt_llm)::",
    "ATOM": r"(?:prefill|decode)\[bs=",
}
"""How the host events of an engine that serves models begin (sources: docs/reference/traces.md)."""
_TRAINS = re.compile(
    r"[Bb]ackward|autograd::engine|AccumulateGrad|^Optimizer\.|zero_grad|optimizer_step|train_step"
    r"|training_(?:step|batch)|_fused_(?:adam|sgd)"
)
"""Host events of a training step: of its backward pass, or of its optimizer."""
_TRAINING_KERNELS = re.compile(
    r"backward|wgrad|multi_tensor_apply|flash_bwd|[Ff]mha_?[Bb]wd|[Aa]dam"
)
"""Kernels of a training step. Those of gradients by the input also compute transposed layers."""
MIN_OPERATORS = 8
"""Operators of a whole model: with fewer kinds a trace is of a part, which may train elsewhere."""
DEVICES = {
    "an Apple GPU (MPS)": r"(?:aten::)?_?mps_|mps::",
    "an Ascend NPU": r"(?:torch_)?npu::|aten::npu_|aclnn",
    "an Intel Gaudi (HPU)": r"hpu::|habana",
    "an XLA device, such as a TPU": r"(?:torch_)?xla::",
    "a GPU": r"(?:aten::)?_?(?:cudnn|miopen)_|nccl:"
    r"|aten::_(?:scaled_dot_product_)?(?:flash|efficient|cudnn)_attention(?!_for_cpu)",
}
"""How operators begin that run on a device of that kind alone."""
MIN_REPLAYS = 2


def purpose_of(timeline: Timeline) -> Purpose | None:
    """Return whether a program trains or infers; None where the trace does not show it.

    A trace of inference holds no sign of a backward pass or an optimizer, and either an engine's
    marks, replayed CUDA graphs, or the operators of a whole model.
    """
    regions = set(_names(timeline, "cpu_op", "user_annotation", "other"))
    kernels = (timeline.names[index] for index in used(timeline.device.name))
    if any(map(_TRAINS.search, regions)) or any(map(_TRAINING_KERNELS.search, kernels)):
        return "training"
    if engine_of(timeline) is not None:
        return "inference"
    if timeline.source != "kineto":
        return None  # what backward looks like in other tools' files is not known
    if _replays(timeline) >= MIN_REPLAYS:
        return "inference"
    operators = sum(name.startswith("aten::") for name in regions)
    return "inference" if operators >= MIN_OPERATORS else None


def engine_of(timeline: Timeline) -> str | None:
    """Return the engine whose marks a trace holds; None if it holds none that is known."""
    names = list(_names(timeline, "cpu_op", "user_annotation", "other"))
    for engine, begin in ENGINES.items():
        if any(map(re.compile(begin).match, names)):
            return engine
    return None


def compiled(timeline: Timeline) -> bool:
    """Return whether torch.compile made some of the program."""
    regions = ("Torch-Compiled Region", "CompiledFunction", "## Call CompiledFxGraph")
    host = any(name.startswith(regions) for name in _names(timeline, "cpu_op", "user_annotation"))
    kernels = (timeline.names[index] for index in used(timeline.device.name))
    return host or any(name.startswith("triton_") for name in kernels)


def _names(timeline: Timeline, *categories: str) -> Iterator[str]:
    rows = of_category(timeline.host, *categories)
    return (timeline.names[index] for index in used(timeline.host.name[rows]))


def _replays(timeline: Timeline) -> int:
    """Return how many launches of CUDA graphs there are."""
    host = timeline.host
    calls = of_category(host, "cuda_runtime", "cuda_driver")
    graphs = [i for i in used(host.name[calls]) if call_kind(timeline.names[i]) == "graph"]
    return int(np.isin(host.name[calls], graphs).sum()) if graphs else 0


def unrecorded_device(timeline: Timeline) -> str | None:
    """Return the kind of device that operators ran on, by their names; None if none shows it."""
    names = list(_names(timeline, "cpu_op", "user_annotation"))
    for device, begin in DEVICES.items():
        if any(map(re.compile(begin).match, names)):
            return device
    return None
