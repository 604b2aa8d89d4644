"""Collects the facts for the first record of a session from the Trainer and torch.

A fact that cannot be read is left out.
"""

import os
import platform
import socket
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from lightning_gpuprof import __version__
from lightning_gpuprof.adapters.collectives import mesh_place
from lightning_gpuprof.adapters.compiled_modules import is_compiled
from lightning_gpuprof.adapters.frames import TENSOR_PACKAGES
from lightning_gpuprof.adapters.lightning import (
    TRAINER_SETTINGS,
    Trainer,
    data_loop,
    detects_anomaly,
    finds_unused_parameters,
    stage_of,
    users_profiler,
    validation_batches,
)
from lightning_gpuprof.adapters.loaders import loaders_of
from lightning_gpuprof.hardware.processor import processor_name
from lightning_gpuprof.records.schema import SCHEMA_VERSION, Device, Loader, RunStart
from lightning_gpuprof.runtime.guard import attempt
from lightning_gpuprof.runtime.shared_state import shared_with

_COMPARED_SETTINGS = ("num_workers", "batch_size", "persistent_workers", "dataset_kind")
"""Validation loaders that agree in these settings are recorded as one."""
SMALL_ROW_BYTES = 16 * 1024
"""Copying a row of up to this size into its batch takes less time than indexing it."""
DRIVER = "/dev/nvidia0"
"""Exists if a machine has an NVIDIA GPU and its driver. AMD's `/dev/kfd` proves no such thing, as
it also exists for the graphics unit inside a processor."""
_VISIBLE_DEVICES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


def run_start(trainer: Trainer, *, session: int, started_unix_ns: int) -> RunStart:
    """Return the first record of a session."""
    stage = stage_of(trainer)
    on_cpu = trainer.strategy.root_device.type == "cpu"
    return RunStart(
        schema_version=SCHEMA_VERSION,
        session=session,
        stage=stage,
        started_unix_ns=started_unix_ns,
        rank=trainer.global_rank,
        world_size=trainer.world_size,
        host=attempt(socket.gethostname, ""),
        mesh=attempt(lambda: mesh_place(trainer), {}),
        pid=os.getpid(),
        program=attempt(_program, ()),
        cpu_count=attempt(lambda: len(os.sched_getaffinity(0)), os.cpu_count()),
        host_cpu_count=os.cpu_count(),
        torch_threads=attempt(torch.get_num_threads, None),
        torch_settings=_torch_settings(),
        versions=_versions(trainer),
        trainer=_trainer(trainer),
        model=attempt(lambda: _model(trainer), {}),
        device=attempt(lambda: device_of(trainer.strategy.root_device), None),
        gpu_left_unused=attempt(gpu_left_unused, None) if on_cpu else None,
        loader=attempt(lambda: _loader(trainer, loaders_of(data_loop(trainer))), None),
        validation_loader=attempt(
            lambda: _validation_loader(trainer) if stage == "fit" else None, None
        ),
    )


def _program() -> tuple[str, ...]:
    """Return the script that runs, or "-m" and the module; empty in a notebook or a shell."""
    main = sys.modules["__main__"]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None:
        return "-m", spec.name.removesuffix(".__main__")
    return (sys.argv[0],) if file is not None and os.path.samefile(file, sys.argv[0]) else ()


def gpu_left_unused() -> str | None:
    """Return why the machine's GPU is not used; None if there is no GPU, or if it is hidden.

    The reasons are those of `RunStart.gpu_left_unused`. No context is created on the device.
    """
    if any(os.environ.get(name, "0").strip() in ("", "-1") for name in _VISIBLE_DEVICES):
        return None  # the user has hidden the GPU
    # This asks the driver's library only, so that processes forked later can still use CUDA.
    if torch.cuda.device_count():
        return "not_used"
    if not os.path.exists(DRIVER):
        return None
    return "not_built" if torch.version.cuda is None else "not_found"


def device_of(device: torch.device) -> Device:
    """Describe the device that a rank trains on. Only fixed properties of a GPU are read."""
    if device.type != "cuda":
        name = attempt(processor_name, None) if device.type == "cpu" else None
        return Device(type=device.type, name=name)
    index = device.index if device.index is not None else torch.cuda.current_device()
    facts = torch.cuda.get_device_properties(index)
    hip = torch.version.hip is not None
    return Device(
        type="hip" if hip else "cuda",
        name=facts.name,
        index=index,
        count=torch.cuda.device_count(),
        total_bytes=facts.total_memory,
        capability=getattr(facts, "gcnArchName", None) if hip else f"{facts.major}.{facts.minor}",
    )


def _torch_settings() -> dict[str, Any]:
    """Return torch's settings that may make a step faster or slower.

    A setting that raises when it is read is left out. That of TF32 does so if the program uses the
    finer settings `fp32_precision` of torch 2.9.
    """
    cudnn: Any = torch.backends.cudnn
    mkldnn: Any = torch.backends.mkldnn
    switches: dict[str, Callable[[], Any]] = {
        "cudnn_benchmark": lambda: cudnn.benchmark,
        "cudnn_deterministic": lambda: cudnn.deterministic,
        "cudnn_allow_tf32": lambda: cudnn.allow_tf32,
        "cudnn_enabled": lambda: cudnn.enabled if cudnn.is_available() else None,
        "mkldnn_enabled": lambda: mkldnn.enabled if mkldnn.is_available() else None,
        "float32_matmul_precision": torch.get_float32_matmul_precision,
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled,
        "flush_denormal": flushes_denormals,
    }
    settings = {name: attempt(read, None) for name, read in switches.items()}
    return {name: value for name, value in settings.items() if value is not None}


def flushes_denormals(smallest: float = sys.float_info.min) -> bool:
    """Return whether the CPU of this thread takes denormal numbers for 0.

    `torch.set_flush_denormal` asks for it, and torch has no function that reads it. Python computes
    with the same instructions.
    """
    return smallest / 2 == 0.0


def _versions(trainer: Trainer) -> dict[str, str]:
    package = type(trainer).__mro__[-2].__module__.split(".")[0]
    versions = {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "lightning": attempt(lambda: str(__import__(package).__version__), None),
        "lightning_gpuprof": __version__,
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
    }
    return {name: version for name, version in versions.items() if version}


def _trainer(trainer: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {
        name: value
        for name in TRAINER_SETTINGS
        if (value := attempt(partial(getattr, trainer, name), None)) is not None
    }
    facts["strategy"] = type(trainer.strategy).__name__
    facts["accelerator"] = type(trainer.accelerator).__name__
    facts["precision"] = str(trainer.precision)
    facts["callbacks"] = [type(callback).__name__ for callback in trainer.callbacks]
    facts["loggers"] = [type(logger).__name__ for logger in trainer.loggers]
    facts["profiler"] = type(users_profiler(trainer)).__name__
    facts["detect_anomaly"] = detects_anomaly(trainer)
    facts["call_hooks"] = attempt(call_hooks, [])
    if finds_unused_parameters(trainer):
        facts["find_unused_parameters"] = True
    return facts


def call_hooks() -> list[str]:
    """Return the names of what Python calls at every call of a function, such as `Profile`.

    These are profilers such as cProfile, debuggers, and tools that measure coverage.
    """
    hooks = (sys.getprofile(), sys.gettrace())
    names = [type(hook).__name__ for hook in hooks if hook is not None]
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is not None:  # Python 3.12
        numbers = (monitoring.PROFILER_ID, monitoring.DEBUGGER_ID, monitoring.COVERAGE_ID)
        names += [name for number in numbers if (name := monitoring.get_tool(number)) is not None]
    return names


def _model(trainer: Trainer) -> dict[str, Any]:
    module = trainer.lightning_module
    facts: dict[str, Any] = {"class": type(module).__name__}
    facts["children"] = _children(module)
    facts["automatic_optimization"] = module.automatic_optimization
    parameters = list(module.parameters())
    facts["parameters"] = attempt(lambda: sum(p.numel() for p in parameters), None)
    facts["parameter_bytes"] = attempt(
        lambda: sum(p.numel() * p.element_size() for p in parameters), None
    )
    facts["dtypes"] = dict(Counter(str(p.dtype).removeprefix("torch.") for p in parameters))
    facts["default_dtype"] = str(torch.get_default_dtype()).removeprefix("torch.")
    facts["optimizers"] = [_optimizer(optimizer) for optimizer in trainer.optimizers]
    # The attribute of nn.Embedding and nn.EmbeddingBag.
    facts["sparse_gradients"] = any(
        getattr(part, "sparse", None) is True for part in module.modules()
    )
    facts["compiled"] = any(is_compiled(part) for part in module.modules())
    return {name: value for name, value in facts.items() if value is not None}


_MOST_CHILDREN = 8


def _children(module: torch.nn.Module, prefix: str = "") -> list[str]:
    """Return the names of a module's first children that have parameters.

    If there is only one such child, these are the names of its own children, and so on.
    """
    children = {
        name: child
        for name, child in module.named_children()
        if next(child.parameters(), None) is not None
    }
    if len(children) == 1:
        name, child = children.popitem()
        return _children(child, f"{prefix}{name}.") or [prefix + name]
    return [prefix + name for name in children][:_MOST_CHILDREN]


def _optimizer(optimizer: Any) -> dict[str, Any]:
    facts = {"class": type(optimizer).__name__, "groups": len(optimizer.param_groups)}
    # The package whose code updates the weights: torch's if a class of the program inherits `step`.
    facts["package"] = str(getattr(type(optimizer).step, "__module__", "")).split(".")[0]
    facts |= {
        key: optimizer.defaults[key]
        for key in ("fused", "foreach", "capturable", "momentum", "weight_decay")
        if optimizer.defaults.get(key) is not None
    }
    return facts


def _validation_loader(trainer: Any) -> Loader | None:
    """Return the settings of a fit's validation loaders; None if the loaders differ."""
    loaders = [_loader(trainer, loader) for loader in _as_list(trainer.val_dataloaders)]
    first = loaders[0]
    if first is None:
        return None
    for loader in loaders:
        if loader is None or any(
            getattr(loader, name) != getattr(first, name) for name in _COMPARED_SETTINGS
        ):
            return None
    batches = validation_batches(trainer)
    counted = len(batches) == len(loaders) and all(isinstance(count, int) for count in batches)
    first.length = round(sum(batches)) if counted else None
    first.loaders = len(loaders) if len(loaders) > 1 else None
    return first


def _as_list(loaders: Any) -> list[Any]:
    if isinstance(loaders, dict):
        return list(loaders.values())
    return list(loaders) if isinstance(loaders, (list, tuple)) else [loaders]


def _loader(trainer: Trainer, loaders: Any) -> Loader | None:
    loader = _as_list(loaders)[0]
    if loader is None or not hasattr(loader, "num_workers"):
        return None
    return Loader(
        num_workers=loader.num_workers,
        batch_size=_batch_size(loader),
        pin_memory=getattr(loader, "pin_memory", None),
        persistent_workers=getattr(loader, "persistent_workers", None),
        prefetch_factor=getattr(loader, "prefetch_factor", None),
        length=attempt(lambda: len(loader), None),
        dataset_kind=attempt(lambda: _dataset_kind(loader), None),
        sampler=attempt(lambda: _users_sampler(loader), None),
        in_memory=attempt(lambda: _in_memory(loader), None),
        dataset=attempt(lambda: _dataset_class(loader.dataset), None),
        collate=attempt(lambda: _users_collate(loader), None),
        shares=attempt(lambda: shared_with(trainer.lightning_module, loader.dataset), None),
    )


def _batch_size(loader: Any) -> int | None:
    """Return the batch size, which `predict` and programs may leave to a batch sampler."""
    sampler = getattr(loader, "batch_sampler", None)
    size = getattr(loader, "batch_size", None) or getattr(sampler, "batch_size", None)
    return size if isinstance(size, int) else None


def _dataset_kind(loader: Any) -> str | None:
    dataset = getattr(loader, "dataset", None)
    if dataset is None:
        return None
    return "iterable" if isinstance(dataset, torch.utils.data.IterableDataset) else "map"


def _dataset_class(dataset: Any) -> str | None:
    """Return the class of a dataset, or of the first that a wrapper of torch holds."""
    while type(dataset).__module__.startswith("torch.utils.data"):
        inner = [getattr(dataset, "dataset", None), *getattr(dataset, "datasets", ())]
        named = [part for part in inner if part is not None]
        if not named:
            break
        dataset = named[0]
    return None if dataset is None else type(dataset).__name__


def _users_collate(loader: Any) -> str | None:
    """Return the name of a collate function, or of the class of a callable object."""
    function = getattr(loader, "collate_fn", None)
    module = str(getattr(function, "__module__", type(function).__module__)).split(".")[0]
    if function is None or module in TENSOR_PACKAGES:
        return None
    name = str(getattr(function, "__qualname__", type(function).__name__))
    return name.rpartition("<locals>.")[2]


def _in_memory(loader: Any) -> bool:
    collates_by_default = loader.collate_fn is torch.utils.data.default_collate
    return collates_by_default and _holds_small_rows(loader.dataset)


def _holds_small_rows(dataset: Any) -> bool:
    """Return whether a dataset consists of tensors in memory with small rows."""
    if type(dataset) is torch.utils.data.Subset:
        return _holds_small_rows(dataset.dataset)
    if type(dataset) is torch.utils.data.ConcatDataset:
        return all(map(_holds_small_rows, dataset.datasets))
    if type(dataset) is not torch.utils.data.TensorDataset:
        return False
    num_bytes: int = sum(tensor.nbytes for tensor in dataset.tensors)
    return num_bytes <= SMALL_ROW_BYTES * len(dataset)


def _users_sampler(loader: Any) -> str | None:
    """Return the class of the user's own sampler, which runs in the training process."""
    samplers = (getattr(loader, name, None) for name in ("batch_sampler", "sampler"))
    classes = [type(sampler) for sampler in samplers if sampler is not None]
    libraries = ("builtins", *TENSOR_PACKAGES)
    users = [cls.__name__ for cls in classes if cls.__module__.split(".")[0] not in libraries]
    return users[0] if users else None
