"""The purpose of a runtime or driver call, from its CUDA or HIP name."""

import re

_PREFIX = r"^(?:cuda|hip|cu|hipExt|xpu|ze)"
_SYNC = re.compile(_PREFIX + r"\w*(?:Synchronize|StreamWaitValue)|^hsa_signal_wait")
_SCOPE = re.compile(_PREFIX + r"(Device|Ctx|Thread|Stream|Event)\w*Synchronize")
_SCOPES = {"Device": "device", "Ctx": "device", "Thread": "device"}
_BLOCKING_COPY = re.compile(_PREFIX + r"(?:Memcpy|Memset)(?!\w*Async)\w*$")
_ALLOC = re.compile(
    _PREFIX + r"(?:Malloc|Free|Mem(?:Alloc|Free|Create|Map|Unmap|AddressReserve|Release|SetAccess)"
    r"|HostAlloc|HostRegister|HostFree|HostMalloc|MemHostAlloc)\w*"
)
_GRAPH = re.compile(_PREFIX + r"GraphLaunch")
_KERNEL = re.compile(_PREFIX + r"\w*(?:Launch\w*Kernel|LaunchKernel)\w*")
_COPY = re.compile(_PREFIX + r"Mem(?:cpy|set)\w*")


def call_kind(name: str) -> str:
    """Return one of kernel, graph, copy, sync, allocator and other.

    >>> call_kind("hipModuleLaunchKernel"), call_kind("cuLaunchKernelEx"), call_kind("cudaMalloc")
    ('kernel', 'kernel', 'allocator')
    >>> call_kind("cudaStreamSynchronize"), call_kind("cudaGraphLaunch")
    ('sync', 'graph')
    """
    for kind, pattern in (
        ("sync", _SYNC),
        ("graph", _GRAPH),
        ("kernel", _KERNEL),
        ("allocator", _ALLOC),
        ("copy", _COPY),
    ):
        if pattern.match(name):
            return kind
    return "other"


def sync_kind(name: str) -> str:
    """Return for what a call waits: the whole device, a stream, an event, a copy, or another thing.

    >>> [sync_kind(f"{api}Synchronize") for api in ("hipDevice", "cuCtx", "cudaStream", "hipEvent")]
    ['device', 'device', 'stream', 'event']
    >>> sync_kind("cudaMemcpyAsync"), sync_kind("hsa_signal_wait_scacquire")
    ('copy', 'other')
    """
    if call_kind(name) != "sync":
        return "copy"
    found = _SCOPE.match(name)
    return _SCOPES.get(found[1], found[1].lower()) if found else "other"


def blocks_as_copy(name: str) -> bool:
    """Tell whether a copy call returns only when the copy is done.

    >>> blocks_as_copy("cudaMemcpy"), blocks_as_copy("cudaMemcpyAsync")
    (True, False)
    """
    return _BLOCKING_COPY.match(name) is not None
