import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lightning_gpuprof.analysis.critical_path.device_starts import launch_ends
from lightning_gpuprof.analysis.critical_path.device_waits import previous_on_stream, stream_waits
from lightning_gpuprof.analysis.critical_path.host_chain import HostChain
from lightning_gpuprof.analysis.critical_path.replay import Left, Replay
from lightning_gpuprof.analysis.trace.host_activity import ACTIVITIES
from lightning_gpuprof.analysis.trace.linked_trace import link
from lightning_gpuprof.traces.timeline import (
    CATEGORY_ID,
    DeviceEvents,
    HostEvents,
    SyncEvents,
    Thread,
    Timeline,
    make_table,
)

NAMES = ["cudaLaunchKernel", "cudaDeviceSynchronize", "gemm", "Stream Wait Event", "aten::mm"]
LAUNCH, SYNC, KERNEL, WAIT, OPERATOR = range(len(NAMES))


@st.composite
def timelines(draw):
    """Calls on two threads, kernels on three streams, some without a launch, some told to wait."""
    time, host, device = 0, [], []
    for number in range(draw(st.integers(1, 25))):
        time += draw(st.integers(0, 40))
        what = draw(st.sampled_from([LAUNCH, LAUNCH, LAUNCH, SYNC, OPERATOR]))
        took, thread = draw(st.integers(1, 30)), draw(st.integers(0, 1))
        host.append((time, took, what, thread, number))
        if what == LAUNCH:
            start = time + draw(st.integers(0, 60))
            known = draw(st.integers(0, 7)) > 0
            stream, dur = draw(st.integers(0, 2)), draw(st.integers(0, 50))
            device.append((start, dur, stream, number if known else -1))
        time += draw(st.integers(0, took))
    ids = st.integers(0, len(host) - 1)
    told = draw(st.lists(st.tuples(st.integers(0, 2), ids, st.integers(0, 2), ids), max_size=4))
    return _timeline(host, device, told)


def _timeline(host, device, told):
    kinds = [CATEGORY_ID["cpu_op" if row[2] == OPERATOR else "cuda_runtime"] for row in host]
    start, dur, name, thread, number = zip(*host, strict=True)
    on_device = list(zip(*device, strict=True)) or [()] * 4
    waits = list(zip(*told, strict=True)) or [()] * 4
    return Timeline(
        source="made",
        origin_ns=0,
        names=NAMES,
        host=make_table(
            HostEvents,
            start_ns=start,
            dur_ns=dur,
            name=name,
            thread=thread,
            correlation=number,
            category=kinds,
        ),
        device=make_table(
            DeviceEvents,
            start_ns=on_device[0],
            dur_ns=on_device[1],
            stream=on_device[2],
            correlation=on_device[3],
            name=[KERNEL] * len(device),
            category=[CATEGORY_ID["kernel"]] * len(device),
            device=[0] * len(device),
        ),
        syncs=make_table(
            SyncEvents,
            start_ns=[0] * len(told),
            dur_ns=[0] * len(told),
            name=[WAIT] * len(told),
            device=[0] * len(told),
            stream=waits[0],
            correlation=waits[1],
            wait_on_stream=waits[2],
            wait_on_correlation=waits[3],
        ),
        threads=[Thread(1, 1), Thread(1, 2)],
    )


def one_by_one(trace, replay):
    """Return what replays event by event, in the order of launching: slow, and plain to read."""
    timeline, device = trace.timeline, trace.timeline.device
    launched = launch_ends(trace)
    starts = [int(table.start_ns[0]) for table in (timeline.host, device) if len(table)]
    begin = min(starts)
    chain = HostChain(trace, launched, begin=begin)
    order = np.argsort(launched, kind="stable").tolist()
    place = {row: index for index, row in enumerate(order)}
    told = stream_waits(trace)
    others = {row: [int(before)] for row, before in enumerate(previous_on_stream(timeline))}
    for row, other in zip(told.row.tolist(), told.waited_for.tolist(), strict=True):
        others[row].append(other)
    start, end = device.start_ns, device.end_ns
    held_by = {
        row: [o for o in some if o >= 0 and end[o] <= start[row] and place[o] < place[row]]
        for row, some in others.items()
    }
    row_at = {place: row for row, place in enumerate(chain.place.tolist()) if place >= 0}
    returns = dict(zip(chain.returns.tolist(), range(len(chain.returns)), strict=True))

    def run(left):
        ended: dict[int, float] = {}

        def finish(row, launched_at):
            ready = [ended[other] + replay.gap[row] * left.queue for other in held_by[row]]
            if launched_at is not None:
                ready.append(launched_at + replay.latency[row] * left.launch_latency)
            share = left.category.get("gemm", 1.0)
            ended[row] = max(ready, default=start[row]) + device.dur_ns[row] * share

        for row in order:
            if launched[row] < 0:
                finish(row, None)
        share = np.array([left.activity.get(name, 1.0) for name in ACTIVITIES])
        work = chain.work(share)
        host = float(begin)
        for number, spent in enumerate(work[:-1]):
            host += spent
            if number in row_at:
                finish(row_at[number], host)
            elif left.waits:
                wait = returns[number]
                back = ended.get(int(chain.device_row[wait]), -np.inf) + chain.after_ns[wait]
                host = max(host, back)
        return round(max([host + work[-1], *ended.values()]) - begin)

    return run


LEFTS = (
    Left(),
    Left(category={"gemm": 0.0}),
    Left(category={"gemm": 0.5}),
    Left(activity=dict.fromkeys(ACTIVITIES, 0.0)),
    Left(activity={"launch_call": 0.0}),
    Left(launch_latency=0.0),
    Left(queue=0.0),
    Left(waits=False),
)


@settings(max_examples=300, deadline=None)
@given(timelines())
def test_whole_bursts_at_once_come_to_what_single_events_come_to(timeline):
    trace = link(timeline)
    replay = Replay(trace)
    singly = one_by_one(trace, replay)

    assert [replay.run(left) for left in LEFTS] == [singly(left) for left in LEFTS]
