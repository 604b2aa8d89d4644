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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, Any

CAUSES = (
    "data_wait",
    "python",
    "sync",
    "allocator",
    "region",
    "dependency",
    "launch_latency",
)
"""What a planted gap is caused by, in the order that gaps come in a step.

During the gap the launching thread was: in a DataLoader's `__next__`; in nothing recorded; in
`cudaStreamSynchronize`; in `cudaMalloc`; in a user annotation named `augment`; or ahead, the
kernel having been launched long before (`dependency`); or just launching (`launch_latency`: the
whole gap lies between the launch and the kernel's start).
"""
GEMM, ELEMENTWISE, REDUCTION = (
    "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float> >",
)
_NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"
_H2D = "Memcpy HtoD (Pinned -> Device)"
_CALL_NS = 1_000
"""A runtime call takes this long, and its operator twice as long."""


@dataclass(frozen=True, kw_only=True)
class SyntheticSpec:
    """What a synthetic trace holds; all times in ns.

    Args:
        steps: Number of `ProfilerStep#`s.
        kernels_per_burst: Kernels after each gap, of the three kinds in turn.
        kernel_ns: A GEMM's duration; a reduction takes half, an elementwise kernel a quarter.
        gaps_ns: Planted gap by cause, once per step each; `data_wait` opens the step.
        launch_latency_ns: From a launch to its kernel where the device was waiting for it.
        copy_ns: Copy to the device that opens each step, after the wait for data.
        copy_bytes: Its size.
        comm_ns: All-reduce at the end of each step, on its own stream; 0 for none.
        exposed_comm_ns: The part of it that no kernel overlaps.
        devices: GPUs, each driven alike by a thread of its own.
        rank: Written as `distributedInfo`; None leaves it out.
        world_size: Number of ranks.
        stack_depth: Python frames around each step; 0 records none.
        shapes: Record input dims and types.
        origin_ns: Unix time of the first event; large, so that a float64 of us loses digits.
        seed: Orders events where `shuffle` is on.
        shuffle: Write the events in random order.
        bare_list: Write a top-level list instead of an object.
    """

    steps: int = 3
    kernels_per_burst: int = 6
    kernel_ns: int = 20_000
    gaps_ns: Mapping[str, int] = field(
        default_factory=lambda: {
            "data_wait": 50_000,
            "python": 31_000,
            "sync": 41_000,
            "allocator": 27_000,
            "region": 37_000,
            "dependency": 23_000,
            "launch_latency": 6_000,
        }
    )
    launch_latency_ns: int = 5_000
    copy_ns: int = 12_345
    copy_bytes: int = 1 << 20
    comm_ns: int = 30_000
    exposed_comm_ns: int = 7_000
    devices: int = 1
    rank: int | None = None
    world_size: int = 1
    stack_depth: int = 0
    shapes: bool = True
    origin_ns: int = 1_751_410_836_123_456_789
    seed: int = 0
    shuffle: bool = False
    bare_list: bool = False

    def __post_init__(self) -> None:
        unknown = set(self.gaps_ns) - set(CAUSES)
        if unknown:
            raise ValueError(f"gaps_ns names {sorted(unknown)}; known causes are {CAUSES}.")
        short = {
            cause: ns
            for cause, ns in self.gaps_ns.items()
            if cause not in ("launch_latency", "dependency") and ns < self.launch_latency_ns
        }
        if short:
            raise ValueError(f"gaps_ns {short} must be at least launch_latency_ns.")
        # Shorter work would end before the next kernel is launched: a gap that nobody planted.
        if self.kernel_ns < 8 * _CALL_NS or self.copy_ns < 3 * _CALL_NS:
            raise ValueError("kernel_ns must be at least 8000 and copy_ns at least 3000.")
        if self.kernels_per_burst < 1 or self.steps < 1 or self.devices < 1:
            raise ValueError("kernels_per_burst, steps and devices must be at least 1.")
        if not 0 <= self.exposed_comm_ns <= self.comm_ns:
            raise ValueError("exposed_comm_ns must lie between 0 and comm_ns.")
        if self.comm_ns - self.exposed_comm_ns > self.burst_ns:
            raise ValueError("The hidden part of comm_ns must fit into one burst of kernels.")

    def duration_ns(self, index: int) -> int:
        """Return how long the burst's kernel of this index takes."""
        return self.kernel_ns // (1, 4, 2)[index % 3]

    @property
    def burst_ns(self) -> int:
        """Return the duration of one burst."""
        return sum(self.duration_ns(i) for i in range(self.kernels_per_burst))

    @property
    def causes(self) -> list[str]:
        """Return the planted causes in the order that they come, `data_wait` first."""
        return [cause for cause in CAUSES if cause in self.gaps_ns]


@dataclass(frozen=True)
class SyntheticAnswers:
    """What any right analysis of the trace must give, for each of its devices.

    `kernels` has (count, total ns) by name; `copies` (count, bytes, total ns) by kind; `steps`
    the host's (name, start since the trace's first event, duration). `idle_ns` is by cause; of
    each gap but a `dependency` the last `launch_latency_ns` is the launch's own latency.
    """

    span_ns: int
    busy_ns: int
    idle_ns: dict[str, int]
    idle_count: dict[str, int]
    compute_ns: int
    comm_ns: int
    copy_ns: int
    exposed_comm_ns: int
    exposed_copy_ns: int
    kernels: dict[str, tuple[int, int]]
    copies: dict[str, tuple[int, int, int]]
    steps: int
    launches: int
    events: int


def answers(spec: SyntheticSpec) -> SyntheticAnswers:
    """Compute the answers from the spec alone."""
    steps, bursts = spec.steps, _bursts(spec)
    compute = steps * bursts * spec.burst_ns
    busy = compute + steps * (spec.copy_ns + spec.exposed_comm_ns)
    # The wait that opens the first step comes before the first thing on the device.
    counts = {cause: steps - (cause == "data_wait") for cause in spec.causes}
    idle = {cause: counts[cause] * spec.gaps_ns[cause] for cause in spec.causes}
    kernels: dict[str, tuple[int, int]] = {}
    for index in range(spec.kernels_per_burst):
        name = (GEMM, ELEMENTWISE, REDUCTION)[index % 3]
        count, total = kernels.get(name, (0, 0))
        kernels[name] = (count + steps * bursts, total + steps * bursts * spec.duration_ns(index))
    if spec.comm_ns:
        kernels[_NCCL] = (steps, steps * spec.comm_ns)
    launches = steps * (bursts * spec.kernels_per_burst + 1 + bool(spec.comm_ns))
    return SyntheticAnswers(
        span_ns=busy + sum(idle.values()),
        busy_ns=busy,
        idle_ns=idle,
        idle_count=counts,
        compute_ns=compute,
        comm_ns=steps * spec.comm_ns,
        copy_ns=steps * spec.copy_ns,
        exposed_comm_ns=steps * spec.exposed_comm_ns,
        exposed_copy_ns=steps * spec.copy_ns,
        kernels=kernels,
        copies={"HtoD": (steps, steps * spec.copy_bytes, steps * spec.copy_ns)},
        steps=steps,
        launches=launches,
        events=spec.devices * (2 + steps * _events_per_step(spec)),
    )


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
            random.Random(spec.seed).shuffle(shuffled)
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


def _bursts(spec: SyntheticSpec) -> int:
    """Every gap but the one that opens the step is followed by a burst, and so is the copy."""
    return 1 + len([cause for cause in spec.causes if cause != "data_wait"])


def _events_per_step(spec: SyntheticSpec) -> int:
    """Count what one device's step writes; a launch is five events, its two arrow ends included."""
    launches = _bursts(spec) * spec.kernels_per_burst + 1 + bool(spec.comm_ns)
    visible = {"data_wait", "region", "sync", "allocator"} & set(spec.gaps_ns)
    return 5 * launches + len(visible) + 1 + spec.stack_depth


def _head(spec: SyntheticSpec) -> str:
    properties = [
        {"id": i, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 84_990_623_744, "numSms": 108}
        for i in range(spec.devices)
    ]
    head: dict[str, Any] = {
        "schemaVersion": 1,
        "deviceProperties": properties,
        "record_shapes": int(spec.shapes),
        "with_stack": int(spec.stack_depth > 0),
        "displayTimeUnit": "ms",
    }
    if spec.rank is not None:
        head["distributedInfo"] = {
            "backend": "nccl",
            "rank": spec.rank,
            "world_size": spec.world_size,
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
        self._pid = 4000 + (spec.rank or 0)
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
        yield from self._on_device(_H2D, "gpu_memcpy", start, spec.copy_ns, self._stream, extra)
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
        launch_at = min(self._host_free, start - 2 * _CALL_NS)
        kept, self._host_free = self._host_free, launch_at
        yield from self._launch(
            "c10d::allreduce_",
            "cudaLaunchKernelExC",
            launch_at,
            [[[512, 1024]], "c10::BFloat16"],
            tid=self._tid + 500,
        )
        self._host_free = kept
        yield from self._on_device(_NCCL, "kernel", start, spec.comm_ns, self._stream + 13)
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
            operator, "cpu_op", start, 2 * _CALL_NS, f'"External id": {external}{shapes}', tid
        )
        identity = f'"External id": {external}, "cbid": 211, "correlation": {correlation}'
        yield self._host(call, "cuda_runtime", start, _CALL_NS, identity, tid)
        yield self._flow("s", correlation, self._pid, tid or self._tid, start)
        self._host_free = start + 2 * _CALL_NS

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
