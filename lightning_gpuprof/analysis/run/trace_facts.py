"""An analysed trace per training step: the rules' view of its document."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from lightning_gpuprof.analysis.run.run_results import RunResults, TraceView
from lightning_gpuprof.analysis.run.steady import EARLY
from lightning_gpuprof.records.phases import Phase

_ON_DEVICE = frozenset(
    "gpu gpus idle idle_functions gaps kernels categories thin_kernels tensor_core_frac gemm_frac "
    "copies roofline roofs modules lines critical_path".split()
)
"""Parts of a document that rest on the device's times."""


@dataclass(frozen=True)
class Operator:
    """An operator's calls per step; host times are scaled to steps without the profiler.

    Calls that made or moved a batch are left out, and the times in proportion.
    """

    name: str
    calls: float
    total_ns: float
    self_ns: float
    device_total_ns: float | None
    repeated_calls: float = 0.0
    """Passes of an autograd node after its first, where the trace has arrows."""
    repeated_ns: float = 0.0
    backward_calls: float = 0.0
    """Inside nodes of the autograd graph."""
    backward_ns: float = 0.0
    update_calls: float = 0.0
    """In an optimizer's update of the weights."""
    update_self_ns: float = 0.0


@dataclass(frozen=True)
class TraceFacts:
    """The analysis of a trace (`analyze --json`), divided by its profiled steps.

    Missing parts are None or empty: the document may be older, or of another profiler.
    `host_scale` is steady step over profiled step, at most 1, for the profiler slows the host.
    """

    document: Mapping[str, Any]
    steps: int
    host_scale: float

    @property
    def operators(self) -> dict[str, Operator]:
        """Every operator by name."""
        every = {row["name"]: self._operator(row) for row in self.rows("operators")}
        return {name: op for name, op in every.items() if op.calls}

    def rows(self, *keys: str) -> Sequence[Mapping[str, Any]]:
        """Return a table somewhere in the document; empty where it has none."""
        rows = self._at(*keys)
        return rows if isinstance(rows, list) else []

    def number(self, *keys: str) -> float | None:
        """Return a number somewhere in the document, such as `("gpu", "idle_ns")`."""
        value = self._at(*keys)
        return value if isinstance(value, int | float) else None

    @property
    def doubted(self) -> bool:
        """Whether the device's times are impossible in part, and therefore not shown here."""
        return bool(doubts_of(self.document))

    @property
    def gpu_steps(self) -> int:
        """The steps that the device's time split and its idle time are of."""
        return int(self.number("gpu", "steps") or self.steps)

    def per_step(self, *keys: str) -> float | None:
        """Return a total of the document per step."""
        value = self.number(*keys)
        steps = self.gpu_steps if keys[0] == "gpu" else self.steps
        return None if value is None else value / steps

    def free_ns(self, step_ns: int) -> float:
        """Return the part of a step in which the first device is idle: the most that can go."""
        return max(0.0, step_ns - (self.per_step("gpu", "busy_ns") or 0.0))

    def idle_ns(self, *causes: str) -> float | None:
        """Return the first device's idle time of these causes per step; None without a device."""
        if not self.on_device:
            return None
        rows = [row for row in self.rows("idle") if row.get("cause") in causes]
        return sum(row.get("total_ns") or 0 for row in rows) / self.gpu_steps

    def sync_ns(self) -> float | None:
        """Return the time in synchronizing calls per step, without the profiler's own."""
        total = self.number("sync_ns")
        if total is None:
            return None
        listed, own = (
            sum(row.get("blocked_ns") or 0 for row in rows)
            for rows in (self.rows("syncs"), self.syncs())
        )
        return (total - listed + own) / self.steps

    def syncs(self, kind: str | None = None) -> Sequence[Mapping[str, Any]]:
        """Return the longest synchronizing calls (of a kind), without the profiler's own."""
        rows = [row for row in self.rows("syncs") if kind is None or row.get("kind") == kind]
        marks = [m for m in self.rows("steps") if m.get("dur_ns") and "start_ns" in m]
        if not marks:
            return rows
        begin = min(mark["start_ns"] for mark in marks)
        end = max(mark["start_ns"] + mark["dur_ns"] for mark in marks)
        return [
            row for row in rows if row.get("operator") or begin <= row.get("start_ns", begin) < end
        ]

    @property
    def launches(self) -> int:
        """How many kernels the host launched in the trace."""
        return int(self.number("quality", "launch_count") or 0)

    @property
    def lost_kernels(self) -> int:
        """How many of them the trace lacks."""
        return int(self.number("quality", "lost_kernels") or 0)

    @property
    def lost_kernels_frac(self) -> float | None:
        """The share of launched kernels that the trace lacks; None where it has no launches."""
        return self.lost_kernels / self.launches if self.launches else None

    @property
    def on_device(self) -> bool:
        """Whether anything ran on a GPU in this trace."""
        return isinstance(self.document.get("gpu"), Mapping)

    def _at(self, *keys: str) -> Any:
        value: Any = self.document
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value

    def _operator(self, row: Mapping[str, Any]) -> Operator:
        device = row.get("device_total_ns")
        count = row.get("count") or 0
        outside = count - (row.get("loading_count") or 0)
        steady = self.host_scale / self.steps
        host = steady * outside / max(1, count)
        counts = ("repeated", "backward", "update")
        times = ("total_ns", "self_ns", "repeated_ns", "backward_ns")
        return Operator(
            name=str(row["name"]),
            calls=outside / self.steps,
            device_total_ns=None if device is None else device / self.steps,
            update_self_ns=(row.get("update_self_ns") or 0) * steady,
            **{f"{of}_calls": (row.get(f"{of}_count") or 0) / self.steps for of in counts},
            **{name: (row.get(name) or 0) * host for name in times},
        )


def trace_facts(run: RunResults) -> TraceFacts | None:
    """Return the last analysed trace of the report's rank, or None where there is none."""
    trace = last_analysed(run)
    if trace is None or trace.analysis is None:
        return None
    marks = trace.analysis.get("steps") or []
    if not marks:
        return None
    traced = [mark["dur_ns"] for mark in marks if mark.get("dur_ns")]
    # The median step without the growth of phases since the trace.
    steady = (run.steps.plain_p50_ns if run.steps else 0) - sum(grown_ns(run).values())
    scale = min(1.0, steady / median(traced)) if traced and steady > 0 else 1.0
    document = _believed(trace.analysis)
    return TraceFacts(document=document, steps=len(marks), host_scale=scale)


def doubts_of(document: Mapping[str, Any]) -> Sequence[str]:
    """Return why the device's times in a document are not to be believed; empty where they are."""
    return (document.get("quality") or {}).get("doubts") or ()


def _believed(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Leave out all that rests on the device's times where some of them cannot be."""
    if not doubts_of(document):
        return document
    operators = [
        {key: value for key, value in row.items() if not key.startswith("device_")}
        for row in document.get("operators") or ()
    ]
    kept = {key: value for key, value in document.items() if key not in _ON_DEVICE}
    return {**kept, "operators": operators}


def grown_ns(run: RunResults) -> dict[Phase, int]:
    """Return how much longer growing phases take at the median than in the run's first steps."""
    growing = (
        ((phase, run.per_step(phase)) for phase in run.variation.growing) if is_early(run) else ()
    )
    return {phase: max(0, one.median_ns - one.early_ns) for phase, one in growing if one}


def is_early(run: RunResults) -> bool:
    """Tell whether the last analysed trace is of the run's first steps."""
    trace = last_analysed(run)
    return trace is not None and trace.cycle.first_step < EARLY


def last_analysed(run: RunResults) -> TraceView | None:
    """Return the last cycle of the lowest rank whose analysis is there, a sound one if possible."""
    ranks = [t for t in run.traces if t.analysis is not None and t.rank == run.start.rank]
    sound = [t for t in ranks if t.analysis is not None and not doubts_of(t.analysis)]
    return next(reversed(sound or ranks), None)
