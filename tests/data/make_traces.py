"""Writes the tiny trace files of tests/data/traces: one small run, told in every format.

Made up, not recorded: `python tests/data/make_traces.py` writes them anew. On one GPU, stream 7:
a GEMM of 50 us, a copy of 4096 bytes to the device of 10 us and an add of 25 us; on the host
their three launches inside a range `step`.
"""

import csv
import gzip
import json
import pickle
import sqlite3
from pathlib import Path

from lightning_gpuprof.traces.jax.jax_xplane import SPACE
from lightning_gpuprof.traces.jax.messages import message_class

HERE = Path(__file__).parent / "traces"
GEMM, ADD = "void gemm<float>(float*, float const*)", "add_kernel(float*)"
KERNELS = [(GEMM, 1_010_000, 1_060_000, 1), (ADD, 1_100_000, 1_125_000, 3)]
COPY = (1_080_000, 1_090_000, 2, 4096)
SYNCS: tuple = ()
"""Calls that wait for the device, which tests add."""
_SYNC = ("hipDeviceSynchronize",)
LAUNCHES = [(1_000_000, 1_002_000, 1), (1_070_000, 1_075_000, 2), (1_091_000, 1_092_000, 3)]
RANGE = ("step", 990_000, 1_130_000)
MESSAGE = json.dumps({"message": RANGE[0]})
PID, TID, STREAM = 41, 42, 7
TIMES = "Start_Timestamp, End_Timestamp"
JAX_STATISTICS = (b"correlation_id", b"memcpy_details", b"core_count", b"step_num")
STATS = "Name, Calls, TotalDurationNs, AverageNs, Percentage"


def main() -> None:
    HERE.mkdir(exist_ok=True)
    nsys()
    nsys_stats()
    ncu()
    rocprof_v1()
    rocprofv3_csv()
    rocprofv3_json()
    rocpd()
    rpd()
    jax()
    memory_snapshot()


def database(name: str, tables: dict[str, tuple[str, list[tuple]]]) -> None:
    (HERE / name).unlink(missing_ok=True)
    with sqlite3.connect(HERE / name) as connection:
        for table, (columns, rows) in tables.items():
            connection.execute(f'CREATE TABLE "{table}" ({columns})')
            marks = ", ".join("?" * len(columns.split(",")))
            connection.executemany(f'INSERT INTO "{table}" VALUES ({marks})', rows)
    connection.close()


def table(name: str, header: str, rows: list[list]) -> None:
    with (HERE / name).open("w", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
        writer.writerow(header.split(", "))
        writer.writerows(rows)


def nsys() -> None:
    strings = [GEMM, ADD, "gemm", "add_kernel", "cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020"]
    strings += ["cudaDeviceSynchronize_v3020"] if SYNCS else []
    thread = PID << 24 | TID
    database(
        "nsys.sqlite",
        {
            "StringIds": ("id, value", list(enumerate(strings))),
            "CUPTI_ACTIVITY_KIND_KERNEL": (
                'start, "end", deviceId, streamId, correlationId, demangledName, shortName',
                [(s, e, 0, STREAM, c, i % 2, i % 2 + 2) for i, (_, s, e, c) in enumerate(KERNELS)],
            ),
            "CUPTI_ACTIVITY_KIND_MEMCPY": (
                'start, "end", deviceId, streamId, correlationId, '
                "copyKind, srcKind, dstKind, bytes",
                [(*COPY[:2], 0, STREAM, COPY[2], 1, 1, 2, COPY[3])],
            ),
            "CUPTI_ACTIVITY_KIND_RUNTIME": (
                'start, "end", globalTid, correlationId, nameId',
                [(s, e, thread, c, 5 if c == 2 else 4) for s, e, c in LAUNCHES]
                + [(s, e, thread, c, 6) for s, e, c in SYNCS],
            ),
            "NVTX_EVENTS": (
                'start, "end", eventType, text, textId, globalTid',
                [
                    (RANGE[1], RANGE[2], 59, "step", None, thread),
                    (999_000, 1_003_000, 59, "aten::mm, seq = 5, op_id = 9", None, thread),
                    (995_000, None, 60, "never closed", None, thread),
                    (5, None, 75, "a domain", None, thread),
                ],
            ),
            "TARGET_INFO_GPU": (
                "id, name, totalMemory, smCount",
                [(0, "Tesla T4", 15828320256, 40)],
            ),
        },
    )


def nsys_stats() -> None:
    lines = ["Generating SQLite file report.sqlite from report.nsys-rep", ""]
    header = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns)"
    lines.append(f"{header},StdDev (ns),Name")
    for name, start, end, _ in KERNELS:
        spent = end - start
        lines.append(f'50.0,{spent},1,{spent}.0,{spent}.0,{spent},{spent},0.0,"{name}"')
    (HERE / "nsys_stats.csv").write_text("\n".join(lines) + "\n")


def ncu() -> None:
    where = "ID, Process ID, Kernel Name, Context, Stream"
    metrics = [
        ("gpu__time_duration.sum", "ns", ["50,000", "25,000"]),
        ("dram__bytes.sum", "byte", ["1,024.50", "8"]),
    ]
    advice = "Section Name, Metric Name, Metric Unit, Metric Value, Rule Name"
    rows = [
        [str(i), "41", KERNELS[i][0], "1", "7", "Speed", name, unit, values[i], ""]
        for i in range(2)
        for name, unit, values in metrics
    ]
    rows.append(["0", "41", GEMM, "1", "7", "Speed", "", "", "", "SomeAdvice"])
    table("ncu_long.csv", f"{where}, {advice}", rows)
    text = (HERE / "ncu_long.csv").read_text()
    (HERE / "ncu_long.csv").write_text("==PROF== Connected to process 41\n" + text)
    wide = [["", "", "", "", "", *(unit for _, unit, _ in metrics)]]
    wide += [
        [str(i), "41", KERNELS[i][0], "1", "7", *(v[i] for _, _, v in metrics)] for i in range(2)
    ]
    table("ncu_wide.csv", ", ".join([where, *(name for name, _, _ in metrics)]), wide)


def rocprof_v1() -> None:
    header = "Index, KernelName, gpu-id, queue-id, DispatchNs, BeginNs, EndNs, DurationNs"
    rows = [[c, f"{n} [clone .kd]", 1, STREAM, s - 10, s, e, e - s] for n, s, e, c in KERNELS]
    table("rocprof_v1.csv", header, rows)
    stats = [[f"{n} [clone .kd]", 1, e - s, e - s, 50.0] for n, s, e, _ in KERNELS]
    table("rocprof_v1.stats.csv", STATS, stats)
    quoted = [(c, f'"{n} [clone .kd]"', 1, STREAM, s, e) for n, s, e, c in KERNELS]
    database(
        "rocprof_v1.db",
        {
            "KERN": ('"Index", "KernelName", "gpu-id", "queue-id", "BeginNs", "EndNs"', quoted),
            "HIP": (
                '"BeginNs", "EndNs", "Name", "pid", "tid", "Index"',
                [(s, e, "hipLaunchKernel", PID, TID, c) for s, e, c in LAUNCHES],
            ),
            "COPY": (
                '"BeginNs", "EndNs", "Name", "dev-id", "queue-id", "Index"',
                [(*COPY[:2], "CopyHostToDevice", 1, STREAM, COPY[2])],
            ),
        },
    )


def rocprofv3_csv() -> None:
    counted = "Dispatch_Id, Kernel_Name, Counter_Name, Counter_Value"
    allocated = "Kind, Operation, Agent_Id, Allocation_Size, Address, Correlation_Id"
    copied = "Kind, Direction, Stream_Id, Source_Agent_Id, Destination_Agent_Id, Correlation_Id"
    launched = "Kind, Agent_Id, Queue_Id, Stream_Id, Thread_Id, Dispatch_Id, Kernel_Id, Kernel_Name"
    called = "Domain, Function, Process_Id, Thread_Id, Correlation_Id"
    copy = ["MEMORY_COPY", "MEMORY_COPY_HOST_TO_DEVICE", STREAM, "Agent 0", "Agent 1", COPY[2]]
    kernel = ["KERNEL_DISPATCH", "Agent 1", 1, STREAM, TID]
    table(
        "rocprofv3_kernel_trace.csv",
        f"{launched}, Correlation_Id, {TIMES}",
        [[*kernel, c, c, n, c, s, e] for n, s, e, c in KERNELS],
    )
    table("rocprofv3_memory_copy_trace.csv", f"{copied}, {TIMES}", [[*copy, *COPY[:2]]])
    table(
        "rocprofv3_hip_api_trace.csv",
        f"{called}, {TIMES}",
        [["HIP_RUNTIME_API", "hipLaunchKernel", PID, TID, c, s, e] for s, e, c in LAUNCHES],
    )
    table(
        "rocprofv3_counter_collection.csv",
        counted,
        [[c, n, "SQ_WAVES", 16384 * c] for n, _, _, c in KERNELS],
    )
    table(
        "rocprofv3_counters_timed.csv",
        f"{counted}, {TIMES}",
        [[c, n, m, 1.0, s, e] for n, s, e, c in KERNELS for m in ("SQ_WAVES", "GRBM_COUNT")],
    )
    table(
        "rocprofv3_memory_allocation_trace.csv",
        f"{allocated}, {TIMES}",
        [["MEMORY_ALLOCATION", "MEMORY_ALLOCATION_ALLOCATE", "Agent 0", 64, "0x7f", 5, 900, 950]],
    )
    table(
        "rocprofv3_kernel_stats.csv",
        f"{STATS}, MinNs, MaxNs, StdDev",
        [[n, 1, e - s, float(e - s), 50.0, e - s, e - s, 0.0] for n, s, e, _ in KERNELS],
    )


def rocprofv3_json() -> None:
    def base(kind: int, operation: int, start: int, end: int, correlation: int) -> dict:
        times = {"start_timestamp": start, "end_timestamp": end}
        ids = {"correlation_id": {"internal": correlation, "external": 0}, "thread_id": TID}
        return {"kind": kind, "operation": operation, **times, **ids}

    gpu, product = {"handle": 900}, {"product_name": "AMD Instinct MI300X"}
    tool = {
        "metadata": {"pid": PID},
        "agents": [
            {"id": {"handle": 899}, "type": 1, "node_id": 0, "name": "a CPU"},
            {"id": gpu, "type": 2, "node_id": 1, "name": "gfx942", **product, "cu_count": 304},
        ],
        "strings": {
            "buffer_records": [
                {
                    "kind": "HIP_RUNTIME_API",
                    "operations": ["hipLaunchKernel", *_SYNC[: len(SYNCS)]],
                },
                {"kind": "MEMORY_COPY", "operations": ["NONE", "MEMORY_COPY_HOST_TO_DEVICE"]},
            ]
        },
        "kernel_symbols": [
            {"kernel_id": c, "formatted_kernel_name": n, "kernel_name": n} for n, _, _, c in KERNELS
        ],
        "buffer_records": {
            "kernel_dispatch": [
                {
                    **base(11, 2, s, e, c),
                    "stream_id": {"handle": STREAM},
                    "dispatch_info": {"agent_id": gpu, "queue_id": {"handle": 1}, "kernel_id": c},
                }
                for _, s, e, c in KERNELS
            ],
            "memory_copy": [
                {
                    **base(1, 1, *COPY[:3]),
                    "stream_id": {"handle": STREAM},
                    "src_agent_id": {"handle": 899},
                    "dst_agent_id": gpu,
                    "bytes": COPY[3],
                }
            ],
            "hip_api": [base(0, 0, s, e, c) for s, e, c in LAUNCHES]
            + [base(0, 1, s, e, c) for s, e, c in SYNCS],
        },
    }
    text = json.dumps({"rocprofiler-sdk-tool": [tool]})
    (HERE / "rocprofv3_results.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def rocpd() -> None:
    call = ("hipLaunchKernel", "HIP_RUNTIME_API")
    database(
        "rocpd.db",
        {
            "rocpd_kernel_dispatch": ("id", []),
            "rocpd_info_agent": (
                "type, absolute_index, name, model_name, product_name, vendor_name",
                [
                    ("CPU", 0, "c", None, None, "x"),
                    ("GPU", 1, "gfx942", None, "AMD Instinct MI300X", "AMD"),
                ],
            ),
            "kernels": (
                'name, start, "end", agent_abs_index, stream_id, queue_id, stack_id, pid',
                [(n, s, e, 1, STREAM, 1, c, PID) for n, s, e, c in KERNELS],
            ),
            "memory_copies": (
                'name, start, "end", src_agent_abs_index, dst_agent_abs_index, '
                "stream_id, stack_id, size",
                [("MEMORY_COPY_HOST_TO_DEVICE", *COPY[:2], 0, 1, STREAM, *COPY[2:])],
            ),
            "regions": (
                'name, category, start, "end", pid, tid, stack_id, extdata',
                [(*call, s, e, PID, TID, c, "{}") for s, e, c in LAUNCHES]
                + [(*_SYNC, call[1], s, e, PID, TID, c, "{}") for s, e, c in SYNCS]
                + [("roctxRangePush", "MARKER_CORE_API", RANGE[1], RANGE[2], PID, TID, 9, MESSAGE)],
            ),
        },
    )


def rpd() -> None:
    strings = [GEMM, ADD, "KernelExecution", "CopyHostToDevice", "", "hipLaunchKernel"]
    strings += ["UserMarker", RANGE[0]]
    ops = [(c, s, e, 1, STREAM, i, 2) for i, (_, s, e, c) in enumerate(KERNELS)]
    ops.append((COPY[2], *COPY[:2], 1, STREAM, 4, 3))
    database(
        "run.rpd",
        {
            "rocpd_string": ("id, string", list(enumerate(strings))),
            "rocpd_op": ('id, start, "end", gpuId, queueId, description_id, opType_id', ops),
            "rocpd_api": (
                'id, start, "end", pid, tid, apiName_id, args_id',
                [(c, s, e, PID, TID, 5, 4) for s, e, c in LAUNCHES]
                + [(9, RANGE[1], RANGE[2], PID, TID, 6, 7)],
            ),
            "rocpd_api_ops": ("api_id, op_id", [(c, c) for _, _, c in LAUNCHES]),
            "rocpd_copyapi": ("api_ptr_id, size", [(COPY[2], COPY[3])]),
        },
    )


def jax() -> None:
    space = message_class(SPACE)()
    device, host = space.planes.add(name=b"/device:GPU:0"), space.planes.add(name=b"/host:CPU")
    for plane in (device, host):
        for key, name in enumerate(JAX_STATISTICS):
            entry = plane.stat_metadata.add(key=key)
            entry.value.name = name
    device.stats.add(metadata_id=2, uint64_value=108)
    start = 900_000
    stream = device.lines.add(id=1, name=f"Stream #{STREAM}(Kernel)".encode(), timestamp_ns=start)
    derived = device.lines.add(id=2, name=b"XLA Modules", timestamp_ns=start)
    thread = host.lines.add(id=TID, name=b"python", timestamp_ns=start)
    keys: dict[str, int] = {}

    def event(plane: object, line: object, name: str, begin: int, end: int) -> object:
        key = keys.setdefault(name, len(keys))
        if key not in [entry.key for entry in plane.event_metadata]:
            entry = plane.event_metadata.add(key=key)
            entry.value.name = name.encode()
        offset = (begin - start) * 1000
        return line.events.add(metadata_id=key, offset_ps=offset, duration_ps=(end - begin) * 1000)

    for name, begin, end, correlation in KERNELS:
        event(device, stream, name, begin, end).stats.add(metadata_id=0, uint64_value=correlation)
    copy = event(device, stream, "MemcpyH2D", *COPY[:2])
    copy.stats.add(metadata_id=0, uint64_value=COPY[2])
    copy.stats.add(metadata_id=1, str_value=b"kind_src:pinned kind_dst:device size:4096 dest:0")
    event(device, derived, "jit_step", 1_010_000, 1_125_000)
    for begin, end, correlation in LAUNCHES:
        call = event(host, thread, "cuLaunchKernel", begin, end)
        call.stats.add(metadata_id=0, uint64_value=correlation)
    event(host, thread, *RANGE).stats.add(metadata_id=3, int64_value=4)
    event(host, thread, "$train.py:7 step", RANGE[1], RANGE[2])
    (HERE / "jax.xplane.pb").write_bytes(space.SerializeToString(deterministic=True))


def memory_snapshot() -> None:
    frames = [
        {"name": "malloc", "filename": "CUDACachingAllocator.cpp", "line": 0},
        {"name": "linear", "filename": "/lib/site-packages/torch/nn/functional.py", "line": 9},
        {"name": "forward", "filename": "/home/me/model.py", "line": 12},
    ]
    blocks = [
        {"size": 512, "requested_size": 500, "state": "active_allocated", "frames": frames},
        {"size": 1024, "requested_size": 0, "state": "inactive", "frames": []},
        {"size": 512, "requested_size": 512, "state": "active_allocated", "frames": []},
    ]
    segment = {"device": 0, "total_size": 2048, "stream": 0, "segment_type": "small"}
    segment["blocks"] = blocks
    snapshot = {
        "segments": [segment],
        "device_traces": [
            [
                {"action": "alloc", "size": 512, "time_us": 10, "frames": frames},
                {"action": "oom", "size": 4096, "time_us": 20, "frames": []},
            ]
        ],
        "allocator_settings": {"expandable_segments": False},
    }
    (HERE / "memory_snapshot.pickle").write_bytes(pickle.dumps(snapshot, protocol=4))


if __name__ == "__main__":
    main()
