"""The purpose of a runtime or driver call, from its CUDA or HIP name."""

import re

_PREFIX = r"^(?:cuda|hip|cu|hipExt|xpu|ze|ur|(?:AscendCL@)?aclrt)"
_SCOPE = re.compile(_PREFIX + r"(Device|Ctx|Thread|Stream|Event)\w*Synchronize")
_SCOPES = {"Device": "device", "Ctx": "device", "Thread": "device"}
_BLOCKING_COPY = re.compile(_PREFIX + r"(?:Memcpy|Memset)(?!\w*Async)\w*$")
_KINDS = {
    "sync": r"\w*(?:Synchronize|StreamWaitValue|EventWait$|QueueFinish$)|^hsa_signal_wait",
    "graph": r"GraphLaunch",
    "kernel": r"\w*(?:Launch\w*Kernel|LaunchKernel|KernelLaunch)\w*",
    "allocator": r"(?:Malloc|Free|Mem(?:Alloc|Free|Create|Map|Unmap|AddressReserve|Release"
    r"|SetAccess)|HostAlloc|HostRegister|HostFree|HostMalloc|MemHostAlloc)\w*",
    "copy": r"(?:EnqueueUSM)?Mem(?:cpy|set)\w*",
}
"""Patterns of what follows the prefix; the first that matches decides."""


def call_kind(name: str) -> str:
    """Return one of kernel, graph, copy, sync, allocator and other.

    >>> call_kind("hipModuleLaunchKernel"), call_kind("cuLaunchKernelEx"), call_kind("cudaMalloc")
    ('kernel', 'kernel', 'allocator')
    >>> call_kind("urEnqueueKernelLaunch"), call_kind("urEventWait"), call_kind("aclrtMalloc")
    ('kernel', 'sync', 'allocator')
    >>> call_kind("cudaStreamSynchronize"), call_kind("cudaGraphLaunch")
    ('sync', 'graph')
    """
    return next((kind for kind, rest in _KINDS.items() if re.match(_PREFIX + rest, name)), "other")


def sync_kind(name: str) -> str:
    """Return what a call waits for: the device, a stream, an event, a copy, or something else.

    >>> [sync_kind(f"{api}Synchronize") for api in ("hipDevice", "cuCtx", "cudaStream", "hipEvent")]
    ['device', 'device', 'stream', 'event']
    >>> sync_kind("cudaMemcpyAsync"), sync_kind("hsa_signal_wait_scacquire")
    ('copy', 'other')
    """
    if call_kind(name) != "sync":
        return "copy"
    match = _SCOPE.match(name)
    return _SCOPES.get(match[1], match[1].lower()) if match else "other"


def blocks_as_copy(name: str) -> bool:
    """Return whether a copy call returns only when the copy is done.

    >>> blocks_as_copy("cudaMemcpy"), blocks_as_copy("cudaMemcpyAsync")
    (True, False)
    """
    return _BLOCKING_COPY.match(name) is not None
