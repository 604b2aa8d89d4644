"""Write four inputs as people reported them; each `right` is known, as the figures are put in.

lost_at_start.json       pytorch/pytorch #192021 "Profiler silently drops GPU kernel events at the start of each
    profiling session; loss grows with accumulated GPU idle time"
    right: the kernels of the first 4 of 10 steps are missing (120 of 300 launches, all at the start); those
    steps were not idle; in the other six the device is busy 6.0 of 8.0 ms (75 %), idle 25 %. No finding may
    rest on idle time of the first four steps (no "idle 55 %").
nccl_lower_case.json     facebookresearch/HolisticTraceAnalysis #247 "Got NaN for communication time, looking for
    ncclKernel in the trace", PR #109 "update is_comm_kernel check to work with newer nccl versions"
    right: 4 steps of 10 ms: compute 6.0 ms, all-reduce 3.0 ms, of which 1.0 hidden and 2.0 exposed (20 % of the
    step), idle 2.0 ms; the 2 ms of exposed communication are named.
quoted_names.json        pytorch/kineto PR #1459 "Fix: JSON-escape double quotes in chrome-trace event names"
    (also kineto #336 alike for backslashes; pytorch #33961)
    right: read in spite of it and say so (3 steps of 12 ms, 60 kernels, 6.0 ms busy = 16.7 %), or refuse in a line
    that names the place and that the file is not valid JSON (an unescaped quote); no traceback.
fragmented.pickle        pytorch/pytorch #35901 "OOM error where ~50% of the GPU RAM cannot be utilised/reserved"
    right: out of memory for want of 10.8 GiB in one piece: 16.3 GiB reserved, 5.9 GiB in use; 10.4 GiB lie free in
    pieces of at most 18 MiB inside a segment that small live blocks pin; advice expandable_segments:True (or
    allocate the large tensor first or of one size).
"""
import json, pickle, random
from pathlib import Path
HERE = Path()

class Trace:
    def __init__(self, rank=None):
        self.events, self.correlation, self.py = [], 100, 0
        gpu = {"id": 0, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85_000_000_000, "computeMajor": 8, "computeMinor": 0, "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65536, "warpSize": 32, "sharedMemPerBlock": 49152, "numSms": 108}
        self.head = {"schemaVersion": 1, "deviceProperties": [gpu], "record_shapes": 0, "with_stack": 0}
        if rank is not None:
            self.head["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": 2}
        for pid, label in ((4242, "CPU"), (0, "GPU 0")):
            self.events += [{"name": "process_name", "ph": "M", "ts": 0, "pid": pid, "tid": 0, "args": {"name": "python"}}, {"name": "process_labels", "ph": "M", "ts": 0, "pid": pid, "tid": 0, "args": {"labels": label}}]
        self.base = 5_000_000_000.0
    def x(self, cat, name, ts, dur, pid=4242, tid=4242, **args):
        self.events.append({"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": round(self.base + ts, 3), "dur": round(dur, 3), "args": args})
    def step(self, number, ts, dur):
        self.x("user_annotation", f"ProfilerStep#{number}", ts, dur, **{"External id": number})
    def launch(self, op, kernel, at, start, dur, stream=7, kept=True, **more):
        self.correlation += 1
        c = self.correlation
        self.x("cpu_op", op, at - 6, 20, **{"External id": c})
        self.x("cuda_runtime", "cudaLaunchKernel", at, 6, **{"cbid": 211, "correlation": c, "External id": c})
        self.events.append({"ph": "s", "id": c, "pid": 4242, "tid": 4242, "ts": round(self.base + at, 3), "cat": "ac2g", "name": "ac2g"})
        if kept:
            self.x("kernel", kernel, start, dur, 0, stream, **{"queued": 0, "device": 0, "context": 1, "stream": stream, "correlation": c, "External id": c, "registers per thread": 90, "shared memory": 0, "blocks per SM": 4.0, "warps per SM": 32.0, "grid": [432, 1, 1], "block": [256, 1, 1], "est. achieved occupancy %": 50, **more})
            self.events.append({"ph": "f", "id": c, "pid": 0, "tid": stream, "ts": round(self.base + start, 3), "cat": "ac2g", "name": "ac2g", "bp": "e"})
    def write(self, name):
        text = json.dumps({**self.head, "traceEvents": self.events, "traceName": name}, indent=1)
        (HERE / name).write_text(text)
        return text

GEMM, ADD = "ampere_sgemm_128x64_tn", "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"

def lost_at_start():
    t = Trace()
    for s in range(10):
        t.step(s + 20, s * 8000, 8000)
        for k in range(30):
            at = s * 8000 + 40 + k * 60
            t.launch("aten::mm" if k % 3 else "aten::add", GEMM if k % 3 else ADD, at, s * 8000 + 300 + k * 200, 200, kept=s >= 4)
        if s >= 4:
            t.x("gpu_user_annotation", f"ProfilerStep#{s + 20}", s * 8000 + 299, 6001, 0, 7, **{"External id": s + 20})
        t.x("cuda_runtime", "cudaStreamSynchronize", s * 8000 + 1900, 4450, **{"cbid": 131, "correlation": 90_000 + s})
    t.write("lost_at_start.json")

def nccl_lower_case():
    t = Trace(rank=0)
    for s in range(4):
        b = s * 10_000
        t.step(s + 5, b, 10_000)
        for k in range(20):
            t.launch("aten::mm", GEMM, b + 60 + k * 90, b + 1000 + k * 300, 300)
        t.x("user_annotation", "nccl:all_reduce", b + 2000, 60)
        t.launch("c10d::allreduce_", "nccldevkernel_allreduce_sum_f32_ring_ll(nccldevcomm*, unsigned long, ncclwork*)", b + 2010, b + 6000, 3000, stream=20, **{"Collective name": "allreduce", "In msg nelems": 25_000_000, "Out msg nelems": 25_000_000, "Group size": 2, "dtype": "Float", "Process Group Name": "0", "Process Group Description": "default_pg", "Process Group Ranks": "[0, 1]"})
        t.x("cuda_runtime", "cudaDeviceSynchronize", b + 2100, 6950, **{"cbid": 165, "correlation": 80_000 + s})
    t.write("nccl_lower_case.json")

def quoted_names():
    t = Trace()
    t.head["with_stack"] = 1
    for s in range(3):
        b = s * 12_000
        t.step(s + 3, b, 12_000)
        t.x("python_function", "train.py(88): training_step", b + 20, 11_000, **{"Python id": 2 * s + 1, "Python parent id": None, "Ev Idx": s})
        t.x("python_function", "QUOTED(12): run", b + 30, 900, **{"Python id": 2 * s + 2, "Python parent id": 2 * s + 1, "Ev Idx": s})
        for k in range(20):
            t.launch("aten::mm", GEMM, b + 100 + k * 500, b + 130 + k * 500, 100)
    text = t.write("quoted_names.json")
    (HERE / "quoted_names.json").write_text(text.replace("QUOTED(12): run", '{"device": "cuda", "dtype": "float32"}(12): run'))

def fragmented():
    rng = random.Random(4)
    mib = 1 << 20
    def frames(line, name):
        return [{"filename": "/home/u/train.py", "line": line, "name": name}]
    big = 11_643_387_904
    segments, trace, now = [], [], 1_700_000_000_000_000
    def seg(address, blocks, kind="large"):
        total = sum(size for size, *_ in blocks)
        used = sum(size for size, state, _ in blocks if state == "active_allocated")
        out, at = [], address
        for size, state, where in blocks:
            out.append({"address": at, "size": size, "requested_size": size if state != "inactive" else 0, "state": state, "frames": where if state != "inactive" else []})
            at += size
        segments.append({"device": 0, "address": address, "total_size": total, "allocated_size": used, "active_size": used, "requested_size": used, "stream": 0, "segment_type": kind, "segment_pool_id": (0, 0), "is_expandable": False, "frames": frames(40, "forward"), "blocks": out})
        return used, total
    address = 0x7F0000000000
    used = total = 0
    for k in range(22):  # parameters and optimizer state: 22 segments of 256 MiB, full
        u, w = seg(address, [(256 * mib, "active_allocated", frames(12, "__init__"))])
        trace.append({"action": "segment_alloc", "addr": address, "size": w, "stream": 0, "time_us": now, "frames": frames(12, "__init__")})
        trace.append({"action": "alloc", "addr": address, "size": w, "stream": 0, "time_us": now, "frames": frames(12, "__init__")})
        used, total, address, now = used + u, total + w, address + w, now + 500
    start = address
    trace.append({"action": "segment_alloc", "addr": start, "size": big, "stream": 0, "time_us": now, "frames": frames(55, "joint")})
    trace.append({"action": "alloc", "addr": start, "size": big, "stream": 0, "time_us": now + 1, "frames": frames(55, "joint")})
    trace.append({"action": "free_requested", "addr": start, "size": big, "stream": 0, "time_us": now + 900_000, "frames": frames(60, "training_step")})
    trace.append({"action": "free_completed", "addr": start, "size": big, "stream": 0, "time_us": now + 900_001, "frames": []})
    blocks, left, at, now = [], big, start, now + 1_000_000
    while left > 20 * mib:
        live = 512 * 1024 * rng.randint(1, 2)
        hole = 512 * 1024 * rng.randint(30, 36)
        for size, state in ((live, "active_allocated"), (hole, "inactive")):
            size = min(size, left)
            blocks.append((size, state, frames(31, "encode")))
            trace.append({"action": "alloc", "addr": at, "size": size, "stream": 0, "time_us": now, "frames": frames(31, "encode")})
            if state == "inactive":
                trace += [{"action": "free_requested", "addr": at, "size": size, "stream": 0, "time_us": now + 300, "frames": frames(33, "encode")}, {"action": "free_completed", "addr": at, "size": size, "stream": 0, "time_us": now + 301, "frames": []}]
            at, left, now = at + size, left - size, now + 40
    blocks.append((left, "active_allocated", frames(31, "encode")))
    trace.append({"action": "alloc", "addr": at, "size": left, "stream": 0, "time_us": now, "frames": frames(31, "encode")})
    u, w = seg(start, blocks)
    used, total = used + u, total + w
    trace.append({"action": "oom", "device_free": 6_500_000_000, "size": big, "stream": 0, "time_us": now + 5000, "frames": frames(55, "joint")})
    trace.sort(key=lambda e: e["time_us"])
    holes = [size for size, state, _ in blocks if state == "inactive"]
    print(f"reserved {total / 2**30:.2f} in use {used / 2**30:.2f} free inside {sum(holes) / 2**30:.2f} GiB, largest {max(holes) / mib:.1f} MiB, wanted {big / 2**30:.2f}")
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "garbage_collection_threshold": 0.0, "expandable_segments": False, "roundup_power2_divisions": {}}
    (HERE / "fragmented.pickle").write_bytes(pickle.dumps({"segments": segments, "device_traces": [trace], "allocator_settings": settings}))

if __name__ == "__main__":
    lost_at_start(); nccl_lower_case(); quoted_names(); fragmented()
