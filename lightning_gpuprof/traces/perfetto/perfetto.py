"""Reads Perfetto's protobuf (`.pftrace`) as rocprofv3 and torch's exporter write it.

Two layouts are known, and a file of neither is refused:

- rocprofv3 writes slices with a category (`kernel_dispatch`, `memory_copy`, `hip_api`, ...), whose
  annotations are their times, agent, queue and correlation id (rocprofiler-sdk).
- torch writes a device's work as GPU render stages and the host's as slices of threads without a
  category (pytorch/pytorch#187892): ranges of the program cannot be told from operators.

Names are interned by sequence of packets. A real file was not at hand.
"""

from collections import deque
from typing import Any

from lightning_gpuprof.errors import TraceError, UnknownTraceError
from lightning_gpuprof.traces.amd.rocprofv3_csv import agent, call_category, direction_of
from lightning_gpuprof.traces.builder import TimelineBuilder, copy_name
from lightning_gpuprof.traces.files import integer, read_file
from lightning_gpuprof.traces.jax.jax_xplane import host_category
from lightning_gpuprof.traces.jax.messages import DamagedMessageError, read_message
from lightning_gpuprof.traces.sniff import PERFETTO_JSON, Head, ReadOptions
from lightning_gpuprof.traces.timeline import Timeline

MESSAGES = """
Trace: packet 1 Packet*
Packet: timestamp 8 uint, trusted_packet_sequence_id 10 uint, track_event 11 TrackEvent, \
interned_data 12 InternedData, sequence_flags 13 uint, gpu_render_stage_event 53 RenderStage, \
track_descriptor 60 Track
TrackEvent: category_iids 3 uint*, debug_annotations 4 Annotation*, type 9 uint, name_iid 10 uint, \
track_uuid 11 uint, categories 22 text*, name 23 text, gpu_correlation 3000 GpuCorrelation
GpuCorrelation: event_ids 1 uint*
Annotation: name_iid 1 uint, uint_value 3 uint, int_value 4 int, string_value 6 text, name 10 text
InternedData: event_categories 1 Name*, event_names 2 Name*, debug_annotation_names 3 Name*, \
gpu_specifications 24 Name*
Name: iid 1 uint, name 2 text
RenderStage: event_id 1 uint, duration 2 uint, extra_data 6 ExtraData*, gpu_id 11 int, \
hw_queue_iid 13 uint, stage_iid 14 uint, name 17 text, name_iid 20 uint
ExtraData: name 1 text, value 2 text
Track: uuid 1 uint, parent_uuid 5 uint, process 3 Process, thread 4 Thread
Process: pid 1 int, process_name 6 text
Thread: pid 1 int, tid 2 int, thread_name 5 text
"""
"""The messages of a file that are read, see `message_class`."""
_ENDINGS = (".pftrace", ".pftrace.gz", ".perfetto-trace")
_BEGIN, _END, _CLEARED = 1, 2, 1
"""Types of slices; the flag of a packet before which a sequence's interned names are forgotten."""
_INTERNED = ("event_categories", "event_names", "debug_annotation_names", "gpu_specifications")
_STAGES = {"Kernel": "kernel", "Memcpy": "gpu_memcpy", "Memset": "gpu_memset"}
"""The category of a device's work by the name of its stage; other stages are ranges."""
_APIS = ("hip_api", "hsa_api", "rccl_api", "rocdecode_api", "rocjpeg_api", "marker_api")


def matches(head: Head) -> bool:
    """Return whether a file may be one of these, by its name: its first bytes have no mark."""
    return head.data.startswith(b"\n") and head.path.endswith(_ENDINGS)


def read(path: str, options: ReadOptions) -> Timeline:
    """Read the work of every device, and the host's calls and ranges."""
    warnings: list[str] = []
    content = read_file(path, warnings)
    try:
        trace = read_message(MESSAGES, content)
    except DamagedMessageError as error:
        raise TraceError(f"{path} is damaged or ends early ({error}). Record it again.") from error
    packets = _Packets(trace)
    if not packets.stages and not packets.is_of_rocprof:
        raise UnknownTraceError(
            f"{path} is a protobuf trace of Perfetto that neither rocprofv3 nor torch wrote. "
            f"{PERFETTO_JSON[0].upper()}{PERFETTO_JSON[1:]}."
        )
    builder = TimelineBuilder("perfetto", vendor="amd" if packets.is_of_rocprof else None)
    builder.warnings.extend(warnings)
    (_add_rocprof if packets.is_of_rocprof else _add_torch)(builder, packets)
    return builder.build()


class _Slice:
    """A slice as it begins, with its names resolved."""

    def __init__(self, packet: Any, names: dict[str, dict[int, str]]) -> None:
        event = packet.track_event
        self.start_ns: int = packet.timestamp
        self.end_ns: int | None = None
        self.track: int = event.track_uuid
        self.name = _text(event.name) or names["event_names"].get(event.name_iid, "")
        interned = [names["event_categories"].get(iid, "") for iid in event.category_iids]
        self.category = next(iter([*map(_text, event.categories), *interned]), "")
        self.values: dict[str, str | int] = {}
        for note in event.debug_annotations:
            key = _text(note.name) or names["debug_annotation_names"].get(note.name_iid, "")
            number = note.uint_value or note.int_value
            self.values[key] = _text(note.string_value) or number
        submitted = event.gpu_correlation.event_ids
        self.correlation = submitted[0] if submitted else self.number("correlation")

    def number(self, key: str) -> int | None:
        """Return an annotation as a number."""
        return integer(self.values.get(key))


class _Packets:
    """The packets of a trace: slices, stages and tracks."""

    def __init__(self, trace: Any) -> None:
        self.slices: list[_Slice] = []
        self.stages: list[tuple[Any, dict[str, str], str, str]] = []
        """Packet, extra data, name of the stage and name of the event."""
        self._begun = deque[_Slice]()
        self.tracks: dict[int, Any] = {}
        sequences: dict[int, dict[str, dict[int, str]]] = {}
        for packet in trace.packet:
            sequence = packet.trusted_packet_sequence_id
            if packet.sequence_flags & _CLEARED or sequence not in sequences:
                sequences[sequence] = {table: {} for table in _INTERNED}
            names = sequences[sequence]
            for table in _INTERNED if packet.HasField("interned_data") else ():
                entries = getattr(packet.interned_data, table)
                names[table].update((entry.iid, _text(entry.name)) for entry in entries)
            if packet.HasField("track_descriptor"):
                self.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
            elif packet.HasField("track_event"):
                if packet.track_event.type == _BEGIN:
                    self.slices.append(_Slice(packet, names))
                    self._begun.append(self.slices[-1])
                elif packet.track_event.type == _END:
                    self._end(packet)
            elif packet.HasField("gpu_render_stage_event"):
                self._add_stage(packet, names)

    def _end(self, packet: Any) -> None:
        """End a slice: the writers end those that they began in the same order."""
        if self._begun and self._begun[0].track == packet.track_event.track_uuid:
            self._begun.popleft().end_ns = packet.timestamp

    def _add_stage(self, packet: Any, names: dict[str, dict[int, str]]) -> None:
        event = packet.gpu_render_stage_event
        extra = {_text(pair.name): _text(pair.value) for pair in event.extra_data}
        lane = names["gpu_specifications"].get(event.hw_queue_iid, "")
        extra.setdefault("stream id", lane.rpartition(" ")[2])
        stage = names["gpu_specifications"].get(event.stage_iid, "")
        name = _text(event.name) or names["event_names"].get(event.name_iid, "") or stage
        self.stages.append((packet, extra, stage, name))

    @property
    def is_of_rocprof(self) -> bool:
        known = {"kernel_dispatch", "memory_copy", *_APIS}
        return any(piece.category in known and "begin_ns" in piece.values for piece in self.slices)


def _add_rocprof(builder: TimelineBuilder, packets: _Packets) -> None:
    for piece in packets.slices:
        times = piece.number("begin_ns"), piece.number("end_ns")
        correlation = piece.number("corr_id")
        if piece.category == "kernel_dispatch":
            device = agent(str(piece.values.get("agent", "")))
            queue = piece.number("queue")
            builder.device(*times, piece.name, "kernel", device, queue, correlation)
        elif piece.category == "memory_copy":
            direction = direction_of(piece.name)
            side = "dst_agent" if direction == "HtoD" else "src_agent"
            device = agent(str(piece.values.get(side, "")))
            where = (device, None, correlation, piece.number("copy_bytes"))
            builder.device(*times, copy_name(direction), "gpu_memcpy", *where)
        elif piece.category in _APIS:
            thread = packets.tracks.get(piece.track)
            pid = thread.thread.pid if thread is not None else 0
            category = call_category(piece.category.upper())
            index = builder.thread(pid, piece.number("tid"))
            builder.host(*times, piece.name, category, index, correlation)


def _add_torch(builder: TimelineBuilder, packets: _Packets) -> None:
    for packet, extra, stage, name in packets.stages:
        if stage in _STAGES:
            event = packet.gpu_render_stage_event
            times = packet.timestamp, packet.timestamp + event.duration
            where = (event.gpu_id, integer(extra["stream id"]), event.event_id)
            size = integer(extra.get("bytes"))
            builder.device(*times, name, _STAGES[stage], *where, size)
    for piece in packets.slices:
        track = packets.tracks.get(piece.track)
        if track is None or not track.HasField("thread"):
            continue
        pid, tid, name = track.thread.pid, track.thread.tid, _text(track.thread.thread_name)
        index = builder.thread(pid, tid, name)
        is_step = piece.name.startswith("ProfilerStep")
        category = "user_annotation" if is_step else host_category(piece.name)
        times = piece.start_ns, piece.end_ns
        builder.host(*times, piece.name, category, index, piece.correlation)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
