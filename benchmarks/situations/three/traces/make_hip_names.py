"""Write hip_names.pt.trace.json: a kineto trace of an AMD GPU.

report: facebookresearch/HolisticTraceAnalysis issue 219, "Adding compatibility to AMD GPUs", and pull
    request 225: launches have other names there (hipLaunchKernel, hipExtModuleLaunchKernel), the
    GPU's work runs on stream 0, where a CUDA GPU's default stream is 7, and a filter of "stream > 0"
    loses it
cause: each step begins with the loading of its batch, for which the GPU waits: it idles in 4.6 of
    10 ms; a tool that knows only cudaLaunchKernel and streams above 0 finds next to no GPU work
right: 4 steps of 10.0 ms on an AMD Instinct MI300X (304 compute units). In each the GPU is busy 5.4 ms,
    54 %: 3.6 ms in 6 matrix products (Cijk_..., hipExtModuleLaunchKernel), 0.4 ms in 4 elementwise
    kernels, 1.0 ms in an all-reduce on stream 2 that overlaps nothing (exposed communication 10 %), and
    0.4 ms in the copy of the batch; idle 46 %. Before the copy the host spends 4.0 ms in
    enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__ while the GPU has nothing to do:
    the loading of data holds it back, not the launches (11 of them, 0.1 ms). Nothing on stream 0 is
    lost, and no advice names CUDA (cuDNN, TF32, CUDA graphs)
"""

import json
from pathlib import Path

STEPS, STEP = 4, 10_000.0
PRODUCT = (
    "Cijk_Ailk_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x256x64_MI16x16x1_SN_LDSB0_AFC1_AFEM1"
    "_ASEM1_CLR1_CADS0_DTLA0_DTLB0_DTVA0_EPS0"
)
ADD = (
    "void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<c10::BFloat16>, "
    "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul>)"
)
REDUCE = "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)"


def event(category, name, start, length, pid, tid, **args):
    row = {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid}
    return {**row, "ts": start, "dur": length, "args": args}


class Trace:
    def __init__(self):
        self.events, self.link = [], 0

    def host(self, category, name, start, length, **args):
        self.events.append(event(category, name, start, length, 310, 310, **args))

    def work(self, operator, call, kernel, called, start, length, stream, **shape):
        """An operator on the host, its call, and what the GPU makes of it."""
        self.link += 1
        both = {"External id": self.link, "correlation": self.link}
        self.host("cpu_op", operator, called - 8, 20.0, **{"External id": self.link})
        self.host("cuda_runtime", call, called, 9.0, **both, stream="0x0", **shape)
        place = {"device": 0, "stream": stream, **both}
        self.events.append(event("kernel", kernel, start, length, 2, stream, **place, **shape))
        flow = {"cat": "ac2g", "name": "ac2g", "id": self.link}
        self.events.append({"ph": "s", **flow, "pid": 310, "tid": 310, "ts": called})
        self.events.append({"ph": "f", "bp": "e", **flow, "pid": 2, "tid": stream, "ts": start})

    def copy(self, start):
        """The batch's copy: the host waits in it for 450 us, the GPU copies for 400 of them."""
        self.link += 1
        both = {"External id": self.link, "correlation": self.link}
        self.host("cpu_op", "aten::to", start - 20, 490.0, **{"External id": self.link})
        size = {"bytes": 16_777_216, "kind": "Host To Device"}
        self.host("cuda_runtime", "hipMemcpyWithStream", start, 450.0, **both, **size)
        place = {"device": 0, "stream": 0, **both, "bytes": 16_777_216}
        name = "CopyHostToDevice"
        self.events.append(event("gpu_memcpy", name, start + 40, 400.0, 2, 0, **place))


def main():
    trace = Trace()
    grid = {"grid": [304, 1, 1], "block": [256, 1, 1]}
    for step in range(STEPS):
        start = 70_000_000.0 + step * STEP
        trace.host("user_annotation", f"ProfilerStep#{step + 5}", start, STEP)
        load = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
        trace.host("user_annotation", load, start, 4000.0)
        trace.copy(start + 4030.0)
        at = start + 4600.0
        for number in range(6):
            call = "hipExtModuleLaunchKernel"
            trace.work(
                "aten::mm", call, PRODUCT, start + 4500.0 + 30 * number, at, 600.0, 0, **grid
            )
            at += 600.0
        for number in range(4):
            called = start + 4700.0 + 30 * number
            trace.work("aten::add", "hipLaunchKernel", ADD, called, at, 100.0, 0, **grid)
            at += 100.0
        call = "hipExtLaunchKernel"
        trace.work("c10d::allreduce_", call, REDUCE, start + 4850.0, at, 1000.0, 2, **grid)
        wait = {"External id": 0, "correlation": 100_000 + step}
        trace.host("cuda_runtime", "hipDeviceSynchronize", start + 4900.0, 4720.0, **wait)
    names = [
        {"ph": "M", "name": "process_name", "pid": 310, "tid": 0, "args": {"name": "python"}},
        {"ph": "M", "name": "process_labels", "pid": 310, "tid": 0, "args": {"labels": "CPU"}},
        {"ph": "M", "name": "process_name", "pid": 2, "tid": 0, "args": {"name": "python"}},
        {"ph": "M", "name": "process_labels", "pid": 2, "tid": 0, "args": {"labels": "GPU 0"}},
    ]
    properties = [{"id": 0, "name": "AMD Instinct MI300X", "totalGlobalMem": 206_141_652_992}]
    properties[0] |= {"computeMajor": 9, "computeMinor": 4, "warpSize": 64, "numSms": 304}
    document = {
        "schemaVersion": 1,
        "deviceProperties": properties,
        "roctracer_version": 4,
        "hip_runtime_version": 60_342_134,
        "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 8},
        "displayTimeUnit": "ms",
        "traceEvents": names + trace.events,
    }
    Path("hip_names.pt.trace.json").write_text(json.dumps(document))


if __name__ == "__main__":
    main()
