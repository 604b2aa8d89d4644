"""Writes Kineto traces whose every answer is known beforehand, of any size.

The device's schedule is laid out first: a copy in, then bursts of kernels, with one planted gap
before each burst and one that opens the step. The host's events are then placed so that each
gap has the cause it was planted for. Durations are plain numbers of the spec, so the answers are
products of them and are computed without looking at any event.

Used by tests (is the answer right?) and benchmarks (is it fast at a gigabyte?).
"""

import gzip
import json
import os
import random
from collections.abc import Iterator
from typing import IO, Any

from synthetic_spec import (
    CALL_NS,
    CAUSES,
    ELEMENTWISE,
    GEMM,
    H2D,
    NCCL,
    REDUCTION,
    SyntheticAnswers,
    SyntheticSpec,
    answers,
)

__all__ = [
    "CAUSES",
    "SyntheticAnswers",
    "SyntheticSpec",
    "answers",
    "events",
    "write_synthetic",
]


def write_synthetic(path: str | os.PathLike[str], spec: SyntheticSpec) -> SyntheticAnswers:
    """Write the trace and return its answers; memory stays small unless events are shuffled.

    Args:
        path: Gzipped where it ends in `.gz`.
        spec: What to write.
    """
    name = os.fspath(path)
    with _open(name) as file:
        file.write("[\n" if spec.bare_list else _head(spec))
        lines = events(spec)
        if spec.shuffle:
            shuffled = list(lines)
            random.Random(0).shuffle(shuffled)
            lines = iter(shuffled)
        separator = ""
        for line in lines:
            file.write(separator)
            file.write(line)
            separator = ",\n"
        file.write("\n]" if spec.bare_list else "\n]}")
    return answers(spec)


def _open(name: str) -> IO[str]:
    if name.endswith(".gz"):
        return gzip.open(name, "wt", compresslevel=1, encoding="utf-8")
    return open(name, "w", encoding="utf-8")


def events(spec: SyntheticSpec) -> Iterator[str]:
    """Yield each event as JSON text, step by step."""
    for device in range(spec.devices):
        yield from _Writer(spec, device).metadata()
    writers = [_Writer(spec, device) for device in range(spec.devices)]
    for step in range(spec.steps):
        for writer in writers:
            yield from writer.step(step)


def _head(spec: SyntheticSpec) -> str:
    properties = [
        {"id": i, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 84_990_623_744, "numSms": 108}
        for i in range(spec.devices)
    ]
    head = {
        "schemaVersion": 1,
        "deviceProperties": properties,
        "record_shapes": int(spec.shapes),
        "with_stack": int(spec.stack_depth > 0),
        "displayTimeUnit": "ms",
    }
    return json.dumps(head)[:-1] + ', "traceEvents": [\n'


def _us(ns: int) -> str:
    """Return microseconds with three decimals, as Kineto writes them."""
    return f"{ns // 1000}.{ns % 1000:03d}"


class _Writer:
    """Lays out one device's steps and the host thread that drives it."""

    def __init__(self, spec: SyntheticSpec, device: int) -> None:
        self._spec = spec
        self._device = device
        self._pid = 4000
        self._tid = 4000 + device
        self._stream = 7
        self._id = 1 + device * 10**9
        start = spec.origin_ns + spec.gaps_ns.get("data_wait", spec.launch_latency_ns)
        self._device_free = start
        """When the device will have finished what was laid out so far."""
        self._host_free = spec.origin_ns

    def metadata(self) -> Iterator[str]:
        names = {self._pid: "python", self._device: "python"}
        for pid, name in names.items():
            yield (
                f'{{"name": "process_name", "ph": "M", "ts": {_us(self._spec.origin_ns)}, '
                f'"pid": {pid}, "tid": 0, "args": {{"name": "{name}"}}}}'
            )

    def step(self, number: int) -> Iterator[str]:
        spec, begun = self._spec, self._host_free
        gap = spec.gaps_ns.get("data_wait", 0) if number else 0
        if "data_wait" in spec.gaps_ns:
            yield from self._cause("data_wait", launch_at=self._first_launch(gap))
        yield from self._copy(self._device_free + gap)
        yield from self._burst(self._device_free, first=True)
        rest = [cause for cause in spec.causes if cause != "data_wait"]
        for index, cause in enumerate(rest):
            last = index == len(rest) - 1
            yield from self._gap_and_burst(cause, comm=last and bool(spec.comm_ns))
        if not rest and spec.comm_ns:
            yield from self._comm()
        name = f"ProfilerStep#{number}"
        yield self._host(name, "user_annotation", begun, self._host_free - begun)
        for depth in range(spec.stack_depth):
            yield self._host(
                f"train.py({10 + depth}): frame_{depth}",
                "python_function",
                begun,
                self._host_free - begun,
                f'"Python id": {number * spec.stack_depth + depth + 1}, '
                f'"Python parent id": {number * spec.stack_depth + depth if depth else "null"}',
            )

    def _first_launch(self, gap: int) -> int:
        return self._device_free + gap - self._spec.launch_latency_ns

    def _gap_and_burst(self, cause: str, *, comm: bool) -> Iterator[str]:
        gap = self._spec.gaps_ns[cause]
        if cause == "dependency":
            start = self._device_free + gap
            yield from self._burst(start, launch_at=self._host_free)
        elif cause == "launch_latency":
            start = self._device_free + gap
            yield from self._burst(start, launch_at=self._device_free)
        else:
            launch_at = self._first_launch(gap)
            yield from self._cause(cause, launch_at=launch_at)
            yield from self._burst(self._device_free + gap, launch_at=launch_at)
        if comm:
            yield from self._comm()

    def _cause(self, cause: str, *, launch_at: int) -> Iterator[str]:
        """Put the host into what causes the gap, until it launches again."""
        start, duration = self._host_free, launch_at - self._host_free
        self._host_free = launch_at
        if cause == "data_wait":
            name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
            yield self._host(name, "user_annotation", start, duration)
        elif cause == "region":
            yield self._host("augment", "user_annotation", start, duration)
        elif cause in ("sync", "allocator"):
            name = {"sync": "cudaStreamSynchronize", "allocator": "cudaMalloc"}[cause]
            yield self._host(
                name, "cuda_runtime", start, duration, f'"correlation": {self._next()}'
            )

    def _copy(self, start: int) -> Iterator[str]:
        spec = self._spec
        extra = f'"bytes": {spec.copy_bytes}'
        yield from self._launch(
            "aten::copy_", "cudaMemcpyAsync", self._host_free, [[[32, 8192], [32, 8192]], "float"]
        )
        yield from self._on_device(H2D, "gpu_memcpy", start, spec.copy_ns, self._stream, extra)
        self._device_free = start + spec.copy_ns

    def _burst(self, start: int, *, launch_at: int = 0, first: bool = False) -> Iterator[str]:
        """Launch a burst's kernels; each runs when the one before it has ended."""
        spec = self._spec
        kinds = (
            ("aten::mm", GEMM, [[[512, 1024], [1024, 1024]], "c10::BFloat16"]),
            ("aten::add", ELEMENTWISE, [[[512, 1024], [512, 1024]], "float"]),
            ("aten::sum", REDUCTION, [[[512, 1024], []], "float"]),
        )
        if not first:
            self._host_free = max(self._host_free, launch_at)
        for index in range(spec.kernels_per_burst):
            operator, kernel, arguments = kinds[index % 3]
            yield from self._launch(operator, "cudaLaunchKernel", self._host_free, arguments)
            duration = spec.duration_ns(index)
            yield from self._on_device(kernel, "kernel", start, duration, self._stream)
            start += duration
        self._device_free = start

    def _comm(self) -> Iterator[str]:
        spec = self._spec
        start = self._device_free - (spec.comm_ns - spec.exposed_comm_ns)
        launch_at = min(self._host_free, start - 2 * CALL_NS)
        kept, self._host_free = self._host_free, launch_at
        yield from self._launch(
            "c10d::allreduce_",
            "cudaLaunchKernelExC",
            launch_at,
            [[[512, 1024]], "c10::BFloat16"],
            tid=self._tid + 500,
        )
        self._host_free = kept
        yield from self._on_device(NCCL, "kernel", start, spec.comm_ns, self._stream + 13)
        self._device_free += spec.exposed_comm_ns

    def _next(self) -> int:
        self._id += 1
        return self._id

    def _launch(
        self, operator: str, call: str, start: int, arguments: list[Any], *, tid: int | None = None
    ) -> Iterator[str]:
        """Write an operator with one launch at its start; the next device event is its child."""
        external, correlation = self._next(), self._next()
        shapes = ""
        if self._spec.shapes:
            dims, dtype = arguments
            types = json.dumps([dtype if shape else "Scalar" for shape in dims])
            shapes = f', "Input Dims": {json.dumps(dims)}, "Input type": {types}'
        yield self._host(
            operator, "cpu_op", start, 2 * CALL_NS, f'"External id": {external}{shapes}', tid
        )
        identity = f'"External id": {external}, "cbid": 211, "correlation": {correlation}'
        yield self._host(call, "cuda_runtime", start, CALL_NS, identity, tid)
        yield self._flow("s", correlation, self._pid, tid or self._tid, start)
        self._host_free = start + 2 * CALL_NS

    def _on_device(
        self, name: str, category: str, start: int, duration: int, stream: int, extra: str = ""
    ) -> Iterator[str]:
        correlation = self._id
        extra = f", {extra}" if extra else ', "grid": [128, 1, 1], "block": [256, 1, 1]'
        yield (
            f'{{"ph": "X", "cat": "{category}", "name": "{name}", "pid": {self._device}, '
            f'"tid": {stream}, "ts": {_us(start)}, "dur": {_us(duration)}, "args": {{'
            f'"External id": {correlation - 1}, "device": {self._device}, "context": 1, '
            f'"stream": {stream}, "correlation": {correlation}{extra}}}}}'
        )
        yield self._flow("f", correlation, self._device, stream, start)

    def _host(
        self,
        name: str,
        category: str,
        start: int,
        duration: int,
        arguments: str = "",
        tid: int | None = None,
    ) -> str:
        return (
            f'{{"ph": "X", "cat": "{category}", "name": "{name}", "pid": {self._pid}, '
            f'"tid": {tid or self._tid}, "ts": {_us(start)}, "dur": {_us(duration)}, '
            f'"args": {{{arguments}}}}}'
        )

    def _flow(self, phase: str, correlation: int, pid: int, tid: int, start: int) -> str:
        end = ', "bp": "e"' if phase == "f" else ""
        return (
            f'{{"ph": "{phase}", "id": {correlation}, "pid": {pid}, "tid": {tid}, '
            f'"ts": {_us(start)}, "cat": "ac2g", "name": "ac2g"{end}}}'
        )
