"""Perfetto's protobuf as rocprofv3 and torch write it; files are made after their sources."""

import gzip

import pytest

from lightning_gpuprof.errors import TraceError, UnknownTraceError
from lightning_gpuprof.traces import open_timeline
from lightning_gpuprof.traces.jax.messages import message_class
from lightning_gpuprof.traces.perfetto.perfetto import MESSAGES
from lightning_gpuprof.traces.timeline import of_category

T0 = 5_000_000_000


class Writer:
    """Writes packets of one sequence; names are interned or not."""

    def __init__(self, *, interned=True):
        self.trace = message_class(MESSAGES)()
        self.interned = interned
        self.ids = {}
        self.packet(sequence_flags=1)

    def packet(self, **fields):
        return self.trace.packet.add(trusted_packet_sequence_id=1, **fields)

    def intern(self, table, text):
        """Return a name's number, and write the name in a packet where it is new."""
        if (table, text) not in self.ids:
            self.ids[table, text] = number = len(self.ids) + 1
            entries = getattr(self.packet().interned_data, table)
            entries.add(iid=number, name=text.encode())
        return self.ids[table, text]

    def track(self, uuid, pid, tid=None, name=""):
        track = self.packet().track_descriptor
        track.uuid = uuid
        if tid is None:
            track.process.pid = pid
        else:
            track.thread.pid, track.thread.tid = pid, tid
            track.thread.thread_name = name.encode()

    def begin(self, track, name, at, *, category=None, **notes):
        number = self.intern("event_names", name) if self.interned else None
        keys = {key: self.intern("debug_annotation_names", key) for key in notes if self.interned}
        group = self.intern("event_categories", category) if category and self.interned else None
        packet = self.packet(timestamp=at)
        event = packet.track_event
        event.type, event.track_uuid = 1, track
        if self.interned:
            event.name_iid = number
            event.category_iids.extend([group] if group else [])
        else:
            event.name = name.encode()
            event.categories.extend([category.encode()] if category else [])
        for key, value in notes.items():
            note = event.debug_annotations.add()
            if self.interned:
                note.name_iid = keys[key]
            else:
                note.name = key.encode()
            if isinstance(value, str):
                note.string_value = value.encode()
            else:
                note.uint_value = value
        return event

    def end(self, track, at):
        event = self.packet(timestamp=at).track_event
        event.type, event.track_uuid = 2, track

    def write(self, path):
        path.write_bytes(gzip.compress(self.trace.SerializeToString()))
        return str(path)


def rocprof(path, **options):
    writer = Writer(**options)
    writer.track(7, 41, 42, "THREAD 0")

    def add(track, name, category, start, end, **notes):
        times = {"begin_ns": T0 + start, "end_ns": T0 + end, "delta_ns": end - start}
        writer.begin(track, name, T0 + start, category=category, **times, **notes)
        writer.end(track, T0 + end)

    for number, (start, end) in enumerate([(0, 2_000), (70_000, 75_000), (91_000, 92_000)], 1):
        add(7, "hipLaunchKernel", "hip_api", start, end, tid=42, corr_id=number)
    add(7, "step", "marker_api", 0, 140_000, tid=42, corr_id=9)
    queue = {"agent": "Agent 1" if options else 1, "queue": 7}
    add(8, "gemm", "kernel_dispatch", 10_000, 60_000, corr_id=1, **queue)
    add(8, "add", "kernel_dispatch", 100_000, 125_000, corr_id=3, **queue)
    add(
        9, "MEMORY_COPY_HOST_TO_DEVICE", "memory_copy", 80_000, 90_000, corr_id=2, src_agent=0,
        dst_agent=1, copy_bytes=4096,
    )  # fmt: skip
    return writer.write(path)


@pytest.mark.parametrize("options", [{}, {"interned": False}])
def test_kernels_copies_and_calls_of_rocprofv3_are_read(tmp_path, totals_by_name, options):
    timeline = open_timeline(rocprof(tmp_path / "a.pftrace", **options))
    device = timeline.device
    assert timeline.source == "perfetto"
    assert totals_by_name(timeline, device, "kernel") == {"gemm": (1, 50_000), "add": (1, 25_000)}
    assert totals_by_name(timeline, device, "gpu_memcpy") == {"Memcpy HtoD": (1, 10_000)}
    assert device.start_ns.tolist() == [10_000, 80_000, 100_000]
    assert device.correlation.tolist() == [1, 2, 3]
    assert device.device.tolist() == [1, 1, 1]
    assert device.stream[of_category(device, "kernel")].tolist() == [7, 7]
    assert device.num_bytes.tolist() == [-1, 4096, -1]
    calls = totals_by_name(timeline, timeline.host, "cuda_runtime")
    assert calls == {"hipLaunchKernel": (3, 8_000)}
    assert totals_by_name(timeline, timeline.host, "user_annotation") == {"step": (1, 140_000)}
    assert [thread.tid for thread in timeline.threads] == [42]
    assert [device.vendor for device in timeline.devices] == ["amd"]


def torchs(path):
    """Write host slices, of which all begin before the first ends, and render stages."""
    writer = Writer()
    writer.track(1, 41)
    writer.track(2, 41, 42, "python")
    host = [
        ("ProfilerStep#3", 0, 200_000, 0),
        ("aten::mm", 1_000, 9_000, 0),
        ("cudaLaunchKernel", 2_000, 5_000, 11),
        ("aten::empty", 9_000, 9_000, 0),
        ("cudaMemcpyAsync", 12_000, 15_000, 12),
    ]
    for name, start, _, correlation in host:
        event = writer.begin(2, name, T0 + start)
        if correlation:
            event.gpu_correlation.event_ids.append(correlation)
    for _, _, end, _ in host:
        writer.end(2, T0 + end)
    stages = {"Kernel": 1, "Memcpy": 2, "Memset": 3, "Annotation": 4, "stream 7": 100}
    packet = writer.packet()
    for name, number in stages.items():
        packet.interned_data.gpu_specifications.add(iid=number, name=name.encode())
    gemm = writer.intern("event_names", "gemm")
    work = [
        ("Kernel", gemm, 10_000, 50_000, 11, {}),
        ("Memcpy", 0, 70_000, 4_000, 12, {"stream id": "9", "bytes": "4096"}),
        ("Annotation", 0, 10_000, 90_000, 0, {}),
    ]
    for stage, name, start, dur, correlation, extra in work:
        event = writer.packet(timestamp=T0 + start).gpu_render_stage_event
        event.event_id, event.duration, event.gpu_id = correlation, dur, 0
        event.stage_iid, event.hw_queue_iid = stages[stage], 100
        if name:
            event.name_iid = name
        for key, value in extra.items():
            event.extra_data.add(name=key.encode(), value=value.encode())
    return writer.write(path)


def test_stages_and_slices_of_torch_are_read(tmp_path, totals_by_name):
    timeline = open_timeline(torchs(tmp_path / "a.pftrace.gz"))
    device = timeline.device
    assert totals_by_name(timeline, device, "kernel") == {"gemm": (1, 50_000)}
    assert totals_by_name(timeline, device, "gpu_memcpy") == {"Memcpy": (1, 4_000)}
    assert device.start_ns.tolist() == [10_000, 70_000]
    assert (device.stream.tolist(), device.num_bytes.tolist()) == ([7, 9], [-1, 4096])
    assert device.correlation.tolist() == [11, 12]
    ops = totals_by_name(timeline, timeline.host, "cpu_op")
    assert ops == {"aten::mm": (1, 8_000), "aten::empty": (1, 0)}
    calls = totals_by_name(timeline, timeline.host, "cuda_runtime")
    assert calls == {"cudaLaunchKernel": (1, 3_000), "cudaMemcpyAsync": (1, 3_000)}
    steps = totals_by_name(timeline, timeline.host, "user_annotation")
    assert steps == {"ProfilerStep#3": (1, 200_000)}
    assert sorted(timeline.host.correlation.tolist()) == [-1, -1, -1, 11, 12]


def test_names_are_those_of_the_sequence_since_it_was_cleared(tmp_path, totals_by_name):
    writer = Writer(interned=True)
    times = {"begin_ns": T0, "end_ns": T0 + 5, "agent": 0, "queue": 1}
    writer.begin(8, "first", T0, category="kernel_dispatch", **times)
    writer.packet(sequence_flags=1)
    writer.ids.clear()
    later = {**times, "begin_ns": T0 + 9, "end_ns": T0 + 12}
    writer.begin(8, "second", T0 + 9, category="kernel_dispatch", **later)
    timeline = open_timeline(writer.write(tmp_path / "a.pftrace"))
    kernels = totals_by_name(timeline, timeline.device, "kernel")
    assert kernels == {"first": (1, 5), "second": (1, 3)}


def test_a_trace_of_another_program_is_refused_with_the_way_to_json(tmp_path):
    writer = Writer()
    writer.track(2, 41, 42, "main")
    writer.begin(2, "Renderer", T0)
    writer.end(2, T0 + 5)
    with pytest.raises(UnknownTraceError, match="neither rocprofv3 nor torch wrote") as error:
        open_timeline(writer.write(tmp_path / "a.perfetto-trace"))
    assert "Export JSON instead" in str(error.value)


def test_a_slice_without_an_end_is_left_out_and_counted(tmp_path):
    path = tmp_path / "a.pftrace"
    trace = message_class(MESSAGES)()
    trace.ParseFromString(gzip.decompress(open(torchs(path), "rb").read()))
    ends = [at for at, packet in enumerate(trace.packet) if packet.track_event.type == 2]
    del trace.packet[ends[-1]]
    path.write_bytes(trace.SerializeToString())
    timeline = open_timeline(str(path))
    assert "cudaMemcpyAsync" not in [timeline.names[i] for i in timeline.host.name]
    assert any(warning.startswith("1 events have no end") for warning in timeline.warnings)


def test_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "a.pftrace"
    content = gzip.decompress(open(torchs(path), "rb").read())
    path.write_bytes(content[:-7])
    with pytest.raises(TraceError, match="is damaged or ends early"):
        open_timeline(str(path))
