"""Compares each operator's kernels with what the device can do.

An operator's FLOPs and bytes follow from its recorded shapes, its time is that of the kernels it
launched. The roof is the lower of two: the device's peak FLOP/s for the type, and its memory
bandwidth times the operator's FLOPs per byte. Where they cross lies the ridge point.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from lightning_gpuprof.analysis.roofline.op_call import MATRIX, Cost
from lightning_gpuprof.analysis.roofline.op_time import WORK, CallGroup, costed_calls
from lightning_gpuprof.analysis.trace.kernel_category import MATRIX_CATEGORIES
from lightning_gpuprof.analysis.trace.linked_trace import LinkedTrace
from lightning_gpuprof.analysis.trace_tables import Bound, RooflineRow, Roofs
from lightning_gpuprof.hardware.lookup import Lookup, Peaks, find_peaks
from lightning_gpuprof.traces.timeline import DeviceInfo, Timeline, of_category

ANOMALY_FRAC = 1.10
"""Above this share of a roof the roof, the shapes or the clock must be wrong: data-sheet peaks
hold at the sheet's boost clock, which devices exceed by a few per cent at most; what stayed in
the cache was not moved at all."""


@dataclass(frozen=True)
class Roofline:
    """The operators of a trace against its device's roofs, longest kernel time first."""

    rows: tuple[RooflineRow, ...]
    peaks: Peaks | None
    reason: str
    kernel_ns: int
    kernel_frac: float | None
    flop_count: Mapping[str, int]
    hfu: float | None
    notes: tuple[str, ...] = ()

    @property
    def roofs(self) -> Roofs:
        """The device's peaks, and how much of the kernels' time the rows cover."""
        peaks = self.peaks
        return Roofs(
            device=peaks.name if peaks else None,
            url=peaks.url if peaks else None,
            peak_flop_per_s=peaks.flop_per_s if peaks else {},
            peak_bytes_per_s=peaks.memory_bytes_per_s if peaks else None,
            reason=self.reason or None,
            total_ns=self.kernel_ns,
            kernel_frac=self.kernel_frac,
            flop_count=self.flop_count,
            hfu=self.hfu,
            notes=self.notes,
        )


def roofline(
    trace: LinkedTrace, *, peaks: Peaks | None = None, span_ns: int | None = None
) -> Roofline:
    """Compare every operator of known cost with the roofs of the trace's first device."""
    timeline = trace.timeline
    lookup = Lookup(peaks) if peaks else device_peaks(timeline)
    rows = [_row(group, cost, lookup.peaks) for group, cost in costed_calls(trace)]
    rows.sort(key=lambda row: (-row.total_ns, row.name))
    total = int(timeline.device.dur_ns[of_category(timeline.device, *WORK)].sum())
    covered = sum(row.total_ns for row in rows)
    if span_ns is None and len(timeline.device):
        first = timeline.device.device == timeline.device.device.min()
        span_ns = int(timeline.device.end_ns[first].max() - timeline.device.start_ns[first].min())
    flops = Counter[str]()
    for row in rows:
        if row.category in MATRIX_CATEGORIES:
            flops[row.dtype] += row.flop_count * row.count
    return Roofline(
        rows=tuple(rows),
        peaks=lookup.peaks,
        reason=lookup.reason,
        kernel_ns=covered,
        kernel_frac=covered / total if total else None,
        flop_count=flops,
        hfu=utilization(flops, span_ns, lookup.peaks),
        notes=_notes(timeline, rows),
    )


def device_peaks(timeline: Timeline) -> Lookup:
    """Look up the first device that the trace describes and that ran something."""
    used = set(timeline.device.device.tolist())
    devices = [device for device in timeline.devices if device.name and device.id in used]
    if not devices:
        return Lookup(None, "The trace does not name the device that ran its kernels.")
    first: DeviceInfo = devices[0]
    memory = first.properties.get("totalGlobalMem")
    units = first.properties.get("numSms")
    return find_peaks(
        first.name,
        memory_bytes=memory if isinstance(memory, int) else None,
        units=units if isinstance(units, int) else None,
    )


def utilization(
    flop_count: Mapping[str, int], span_ns: int | None, peaks: Peaks | None
) -> float | None:
    """Return the share of a span in which FLOPs, by type, would have been done at peak.

    With the FLOPs that a model needs this is its MFU, with those that ran (`Roofline.flop_count`)
    its HFU. None where a type's peak, the span or any FLOPs are not known.
    """
    if not flop_count or not span_ns or peaks is None:
        return None
    if any(dtype not in peaks.flop_per_s for dtype in flop_count):
        return None
    at_peak = sum(count / peaks.flop_per_s[dtype] for dtype, count in flop_count.items())
    return at_peak / (span_ns / 1e9)


def roofs_of(peaks: Peaks | None, dtype: str, unit: str) -> tuple[float | None, float | None]:
    """Return the peak FLOP/s and bytes/s; of vector units the fp32 rate, whatever they store."""
    if peaks is None:
        return None, None
    return peaks.flop_per_s.get(dtype if unit == MATRIX else "fp32"), peaks.memory_bytes_per_s


def _row(group: CallGroup, cost: Cost, peaks: Peaks | None) -> RooflineRow:
    is_tf32 = group.tf32 and cost.dtype == "fp32" and cost.unit == MATRIX
    dtype = "tf32" if is_tf32 else cost.dtype
    seconds = group.kernel_ns / 1e9
    flop_per_s = cost.flop_count * group.count / seconds
    bytes_per_s = cost.num_bytes * group.count / seconds
    peak_flops, peak_bytes = roofs_of(peaks, dtype, cost.unit)
    compute = flop_per_s / peak_flops if peak_flops else None
    memory = bytes_per_s / peak_bytes if peak_bytes else None
    # If only one roof is known, the share is of that roof; which one is lower is not known.
    bound: Bound | None = None
    frac = compute if cost.unit == MATRIX else None
    if compute is not None and memory is not None:
        bound, frac = ("compute", compute) if compute >= memory else ("memory", memory)
    anomaly = None
    if frac is not None and frac > ANOMALY_FRAC:
        anomaly = (
            f"{frac:.0%} of the {bound or 'compute'} roof: more than the device can do. "
            "The data was in the cache, the shapes are not those of the work, or the peak is wrong."
        )
    return RooflineRow(
        name=group.name,
        category=cost.category,
        dims=group.arguments.dims,
        dtype=dtype,
        count=group.count,
        kernel_count=group.kernel_count,
        total_ns=group.kernel_ns,
        flop_count=cost.flop_count,
        num_bytes=cost.num_bytes,
        flop_per_byte=cost.flop_count / cost.num_bytes if cost.num_bytes else 0.0,
        flop_per_s=None if anomaly else flop_per_s,
        bytes_per_s=None if anomaly else bytes_per_s,
        peak_flop_per_s=peak_flops,
        peak_bytes_per_s=peak_bytes,
        ridge_flop_per_byte=peak_flops / peak_bytes if peak_flops and peak_bytes else None,
        bound=bound,
        roof_frac=None if anomaly else frac,
        anomaly=anomaly,
    )


def _notes(timeline: Timeline, rows: list[RooflineRow]) -> tuple[str, ...]:
    if len(timeline.device) and not rows:
        return (
            "No operator has recorded shapes. Record with record_shapes=True to see FLOPs, "
            "bytes and roofs.",
        )
    odd = sum(row.anomaly is not None for row in rows)
    if odd:
        seem = "1 operator seems" if odd == 1 else f"{odd} operators seem"
        why = "their data may have been in its cache"
        return (f"{seem} faster than the device can be ({why}); no result is given.",)
    return ()
