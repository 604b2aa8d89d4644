"""What kind of thing each event is, by which it is coloured."""

import numpy as np

from lightning_gpuprof.analysis.trace.host_calls import call_kind
from lightning_gpuprof.analysis.trace.idle import CAUSES
from lightning_gpuprof.analysis.trace.kernel_category import CATEGORIES as KERNEL_KINDS
from lightning_gpuprof.analysis.trace.kernel_category import categorize
from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.traces.timeline import CATEGORIES, CATEGORY_ID, Timeline

KINDS = (
    *("operator", "annotation", "runtime", "sync", "allocator", "python", "overhead"),
    *("memcpy", "memset"),
    *(f"kernel_{name}" for name in KERNEL_KINDS),
    *(f"idle_{cause}" for cause in CAUSES),
)
KIND_ID = {kind: index for index, kind in enumerate(KINDS)}
_HOST_KIND = {
    "cpu_op": "operator",
    "user_annotation": "annotation",
    "cuda_runtime": "runtime",
    "cuda_driver": "runtime",
    "python_function": "python",
}


def host_kinds(timeline: Timeline) -> Int64:
    """Return the kind of each host event, as an index into `KINDS`.

    Calls that wait for the device are of the kind `runtime` here, not `sync`.
    """
    host = timeline.host
    by_category = [KIND_ID[_HOST_KIND.get(name, "overhead")] for name in CATEGORIES]
    kinds = np.array(by_category, dtype=np.int64)[host.category]
    calls = np.flatnonzero(kinds == KIND_ID["runtime"])
    by_name = np.full(len(timeline.names), KIND_ID["runtime"], dtype=np.int64)
    for index in np.unique(host.name[calls]).tolist():
        if call_kind(timeline.names[index]) == "allocator":
            by_name[index] = KIND_ID["allocator"]
    kinds[calls] = by_name[host.name[calls]]
    return kinds


def device_kinds(timeline: Timeline) -> Int64:
    """Return the kind of each device event, as an index into `KINDS`."""
    device = timeline.device
    by_name = np.full(len(timeline.names), KIND_ID["kernel_other"], dtype=np.int64)
    for index in np.unique(device.name).tolist():
        by_name[index] = KIND_ID[f"kernel_{categorize(timeline.names[index])}"]
    kinds = by_name[device.name].astype(np.int64)
    kinds[device.category == CATEGORY_ID["gpu_memcpy"]] = KIND_ID["memcpy"]
    kinds[device.category == CATEGORY_ID["gpu_memset"]] = KIND_ID["memset"]
    return kinds
