"""Write graph_replays.sqlite: an nsys export in which CUDA graphs are replayed.

Reported in GindaChen/nsys-ai issue 236, "CUDA graph node attribution (CUDA_GRAPH_EVENTS /
graphNodeId)": "per-launch overhead analysis misattributes, since one launch covers the whole graph".

right: 10 ranges "step" of 4.0 ms; each launches one graph (cudaGraphLaunch, 20 us on the host) of
    40 kernels of 50 us, 2 us apart: 400 kernels, 20.0 ms; every kernel belongs to the launch of its
    correlation and to its step. 10 launches take 0.2 ms of the host, not 400 that take 8 ms. The
    device is busy 2.0 of 4.0 ms in each step: between replays the host spends 1.87 ms in a range
    "tokenize", so it waits for the host, not for launches, and "use CUDA graphs" is no advice here
"""

import sqlite3
from pathlib import Path

STEPS, NODES, KERNEL, APART, STEP = 10, 40, 50_000, 2_000, 4_000_000
NAMES = {
    1: "void cutlass::Kernel<gemm_bf16_128x128>(Params)",
    2: "void vectorized_elementwise_kernel<4, silu>(int, T)",
    3: "cudaGraphLaunch_v10000",
    4: "gemm_bf16_128x128",
    5: "vectorized_elementwise_kernel",
}
TABLES = """
CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, smCount INTEGER, computeMajor INTEGER,
    computeMinor INTEGER);
CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, textId INTEGER,
    globalTid INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER,
    correlationId INTEGER, nameId INTEGER, returnValue INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER,
    contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,
    demangledName INTEGER, shortName INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER,
    blockX INTEGER, blockY INTEGER, blockZ INTEGER, graphNodeId INTEGER, graphId INTEGER);
CREATE TABLE CUDA_GRAPH_EVENTS (start INTEGER, end INTEGER, nameId INTEGER, globalTid INTEGER,
    graphId INTEGER, originalGraphId INTEGER, graphExecId INTEGER);
"""


def main():
    path = Path("graph_replays.sqlite")
    path.unlink(missing_ok=True)
    base = sqlite3.connect(path)
    base.executescript(TABLES)
    base.executemany("INSERT INTO StringIds VALUES (?, ?)", NAMES.items())
    base.execute("INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.20.1')")
    base.execute("INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H100 80GB HBM3', 132, 9, 0)")
    process = 4242 << 24
    thread = process + 4242
    kernels, launches, ranges = [], [], []
    for step in range(STEPS):
        start = 1_000_000_000 + step * STEP
        ranges.append((start, start + STEP, 59, "step", None, thread))
        ranges.append((start + 10_000, start + 1_880_000, 59, "tokenize", None, thread))
        launch = start + 1_890_000
        launches.append((launch, launch + 20_000, thread, 900 + step, 3, 0))
        for node in range(NODES):
            at = launch + 12_000 + node * (KERNEL + APART)
            long, short = (1, 4) if node % 2 == 0 else (2, 5)
            row = (at, at + KERNEL, 0, 1, 7, 900 + step, process, long, short, 64, 1, 1, 256, 1, 1)
            kernels.append((*row, (5 << 32) + node + 1, 5))
    base.execute(
        "INSERT INTO CUDA_GRAPH_EVENTS VALUES (900000000, 900050000, NULL, ?, 5, 4, 6)", (thread,)
    )
    base.executemany("INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, ?, ?, ?)", ranges)
    base.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, ?, ?)", launches)
    marks = ", ".join("?" * 17)
    base.executemany(f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({marks})", kernels)
    base.commit()
    base.close()


if __name__ == "__main__":
    main()
