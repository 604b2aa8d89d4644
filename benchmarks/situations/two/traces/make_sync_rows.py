"""Write sync_rows.pt.trace.json: a trace that has synchronisation events beside its kernels.

Reported in facebookresearch/HolisticTraceAnalysis pull request 162, "Correct Comm/comp Overlap
Calculation" ("Device Sync, Stream Sync and Event Sync were introduced to traces and they were
mistakenly treated as computation kernels"), and pull request 149's idle time.

right: 3 steps of 10 ms. In each, compute runs 5.0 ms on stream 7, and an all-reduce 4.0 ms on
    stream 20, of which 1.0 ms overlaps compute: 3.0 ms of communication are exposed, the device
    is busy 8.0 ms and idle 2.0 ms. The cuda_sync events ("Stream Wait Event", "Event Sync",
    "Context Sync"), which cover 4.5 ms of each step, are neither compute nor busy time: compute is
    15.0 ms over all, communication 12.0 ms, overlap 25 % of it (not 100 %)
"""

import json
from pathlib import Path

STEPS, STEP_US = 3, 10_000.0


def event(category, name, start, length, pid, tid, **args):
    row = {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid}
    return {**row, "ts": start, "dur": length, "args": args}


def main():
    events = [
        {"ph": "M", "name": "process_name", "pid": 77, "tid": 0, "args": {"name": "python"}},
        {"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "args": {"labels": "GPU 0"}},
    ]
    link = 0
    for step in range(STEPS):
        start = 9_000_000_000.0 + step * STEP_US
        events.append(event("user_annotation", f"ProfilerStep#{step + 2}", start, STEP_US, 77, 77))
        work = [("gemm_bf16_tn_256x128", "aten::mm", 500.0 + 500 * n, 500.0, 7) for n in range(10)]
        reduce = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
        work.append((reduce, "c10d::allreduce_", 4500.0, 4000.0, 20))
        for n, (name, operator, after, length, stream) in enumerate(work):
            link += 1
            at = start + 20.0 * n
            events.append(event("cpu_op", operator, at, 15.0, 77, 77, **{"External id": link}))
            launch = {"External id": link, "correlation": link}
            events.append(event("cuda_runtime", "cudaLaunchKernel", at + 4, 6.0, 77, 77, **launch))
            on = {**launch, "device": 0, "context": 1, "stream": stream}
            on |= {"grid": [132, 1, 1], "block": [384, 1, 1]}
            events.append(event("kernel", name, start + after, length, 0, stream, **on))
        link += 1
        wait = {"correlation": link, "External id": link}
        where = {**wait, "device": 0, "context": 1}
        call = "cudaDeviceSynchronize"
        events.append(event("cuda_runtime", call, start + 250, 8260.0, 77, 77, **wait))
        for name, after, length, stream in (
            ("Stream Wait Event", 4000.0, 1500.0, 20),
            ("Event Sync", 4500.0, 4000.0, 7),
            ("Context Sync", 5500.0, 3000.0, -1),
        ):
            args = {**where, "stream": stream, "wait_on_stream": 20, "cuda_sync_kind": name}
            events.append(event("cuda_sync", name, start + after, length, 0, stream, **args))
    properties = [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132, "computeMajor": 9}]
    document = {
        "schemaVersion": 1,
        "deviceProperties": properties,
        "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 8},
        "traceEvents": events,
    }
    Path("sync_rows.pt.trace.json").write_text(json.dumps(document))


if __name__ == "__main__":
    main()
