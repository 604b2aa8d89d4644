import pytest

from lightning_gpuprof.analysis.memory.memory_snapshot import analyze_snapshot
from lightning_gpuprof.traces.memory_snapshot import read_snapshot

MIB = 2**20


@pytest.fixture
def analyzed(allocator_snapshot, tmp_path):
    def analyze(**options):
        path = tmp_path / "snapshot.pickle"
        allocator_snapshot.dump(str(path))
        return analyze_snapshot(read_snapshot(str(path)), 0, **options)

    return analyze


def train_step(pool, *, leak: int = 0) -> None:
    pool.note = "forward"
    activation = pool.allocate(30 * MIB, line=10)
    pool.free(pool.allocate(5 * MIB, line=11))
    if leak:
        pool.allocate(leak, line=12, function="training_step")
    pool.note = "backward"
    gradient = pool.allocate(8 * MIB)
    pool.free(activation)
    pool.note = "optimizer_step"
    pool.free(pool.allocate(2 * MIB, line=20, function="step"))
    pool.note = "between"
    pool.free(gradient)


def test_the_peak_is_split_by_kind_and_by_line(allocator_snapshot, analyzed):
    weight, state = allocator_snapshot.held(8 * MIB), allocator_snapshot.held(16 * MIB)
    for _ in range(3):
        train_step(allocator_snapshot)
    result = analyzed(kinds={"parameters": [weight], "optimizer_state": [state]})
    assert result.peak_bytes == (8 + 16 + 30 + 8) * MIB
    assert result.peak_kind_bytes == {
        "parameters": 8 * MIB,
        "gradients": 8 * MIB,
        "optimizer_state": 16 * MIB,
        "activations": 30 * MIB,
        "other": 0,
    }
    # No Python stack: what was there before, and autograd's own thread.
    assert [(site.frame and site.frame.line, site.num_bytes) for site in result.peak_sites] == [
        (None, (8 + 16 + 8) * MIB),
        (10, 30 * MIB),
    ]
    assert result.before_bytes == result.allocated_bytes == 24 * MIB
    assert result.steps == 3


def test_a_planted_leak_is_found_with_its_line_and_rate(allocator_snapshot, analyzed):
    for _ in range(20):
        train_step(allocator_snapshot, leak=3 * MIB)
    (growing,) = analyzed().growing
    assert (growing.frame.line, growing.frame.function) == (12, "training_step")
    assert growing.num_bytes == 60 * MIB
    assert growing.bytes_per_step == 3 * MIB


def test_what_a_step_leaves_for_good_is_neither_activation_nor_gradient(
    allocator_snapshot, analyzed
):
    pool = allocator_snapshot
    weight, gradient = pool.held(8 * MIB), pool.held(8 * MIB)
    pool.note = "forward"
    pool.allocate(32 * MIB, line=10)  # cuBLAS makes a workspace in each thread, at its first use
    pool.note = "backward"
    pool.allocate(32 * MIB)
    for _ in range(3):
        train_step(pool)
    pool.note = "forward"
    pool.allocate(30 * MIB, line=10)  # where the history ends: of a step under way
    result = analyzed(kinds={"parameters": [weight], "gradients": [gradient]})
    assert result.peak_kind_bytes == {
        "parameters": 8 * MIB,
        "gradients": (8 + 8) * MIB,
        "optimizer_state": 0,
        "activations": 30 * MIB,
        "other": 64 * MIB,
    }


def test_a_block_freed_in_the_history_but_made_before_it_counts_from_the_beginning(
    allocator_snapshot, analyzed
):
    old = allocator_snapshot.held(50 * MIB)
    allocator_snapshot.free(old)
    result = analyzed()
    assert (result.before_bytes, result.peak_bytes, result.allocated_bytes) == (
        50 * MIB,
        50 * MIB,
        0,
    )
    assert result.peak_time_us is None


def test_real_snapshots_keep_their_own_sums(shared_traces):
    for path in sorted((shared_traces / "memory").glob("*.pickle")):
        snapshot = read_snapshot(str(path))
        for device in snapshot.devices:
            result = analyze_snapshot(snapshot, device)
            requested = sum(
                block.requested_bytes or block.num_bytes
                for segment in snapshot.segments
                for block in segment.blocks
                if segment.device == device and block.state == "active_allocated"
            )
            traced = any(event.device == device for event in snapshot.events)
            assert result.peak_bytes >= result.allocated_bytes
            assert sum(result.peak_kind_bytes.values()) == result.peak_bytes
            if traced and path.name.endswith("memory_snapshot.pickle"):
                assert result.allocated_bytes == requested
                assert result.peak_sites[1].frame.file.endswith("cs336_basics/optimizer.py")
                assert result.growing == ()
