"""What a synthetic trace holds, and what any right analysis of it must give."""

from collections.abc import Mapping
from dataclasses import dataclass, field

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
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"
H2D = "Memcpy HtoD (Pinned -> Device)"
CALL_NS = 1_000
"""A runtime call takes this long, and its operator twice as long."""


@dataclass(frozen=True, kw_only=True)
class SyntheticSpec:
    """What a synthetic trace holds; all times in ns.

    Args:
        steps: Number of `ProfilerStep#`s.
        kernels_per_burst: Kernels after each gap, of the three kinds in turn.
        kernel_ns: A GEMM's duration; a reduction takes half, an elementwise kernel a quarter. Below
            8000 it would end before the next launch: a gap that nobody planted.
        gaps_ns: Planted gap by cause, once per step each; `data_wait` opens the step. At least
            `launch_latency_ns`, but for `launch_latency` and `dependency`.
        launch_latency_ns: From a launch to its kernel where the device was waiting for it.
        copy_ns: Copy to the device that opens each step, after the wait for data; 3000 or more.
        copy_bytes: Its size.
        comm_ns: All-reduce at the end of each step, on its own stream; 0 for none.
        exposed_comm_ns: The part of it that no kernel overlaps.
        devices: GPUs, each driven alike by a thread of its own.
        stack_depth: Python frames around each step; 0 records none.
        shapes: Record input dims and types.
        origin_ns: Unix time of the first event; large, so that a float64 of us loses digits.
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
    stack_depth: int = 0
    shapes: bool = True
    origin_ns: int = 1_751_410_836_123_456_789
    shuffle: bool = False
    bare_list: bool = False

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
        kernels[NCCL] = (steps, steps * spec.comm_ns)
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


def _bursts(spec: SyntheticSpec) -> int:
    """Every gap but the one that opens the step is followed by a burst, and so is the copy."""
    return 1 + len([cause for cause in spec.causes if cause != "data_wait"])


def _events_per_step(spec: SyntheticSpec) -> int:
    """Count what one device's step writes; a launch is five events, its two arrow ends included."""
    launches = _bursts(spec) * spec.kernels_per_burst + 1 + bool(spec.comm_ns)
    visible = {"data_wait", "region", "sync", "allocator"} & set(spec.gaps_ns)
    return 5 * launches + len(visible) + 1 + spec.stack_depth
