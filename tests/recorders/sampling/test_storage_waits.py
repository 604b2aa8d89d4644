"""Threads as the kernel shows them, in a folder of the test's own."""

import sys
import threading

import pytest

from lightning_gpuprof.recorders.sampling import storage_waits
from lightning_gpuprof.recorders.sampling.storage_waits import (
    filesystem_of,
    reads_so_far,
    waits_for_storage,
)

READ, OPEN, FUTEX = 900, 901, 902
MOUNTS = """\
22 1 0:21 / / rw - ext4 /dev/vda rw
23 22 0:22 / /data rw,relatime shared:7 - nfs4 server:/data rw
24 22 0:23 / /data/local rw - xfs /dev/vdb rw
25 22 0:24 / /database rw - fuse.s3fs s3fs rw
"""


@pytest.fixture
def thread(tmp_path, monkeypatch):
    """Show a thread in a call of the kernel's, with a file, a pipe or nothing as its argument."""
    monkeypatch.setattr(storage_waits, "_READ_CALLS", (READ,))
    monkeypatch.setattr(storage_waits, "_OPEN_CALLS", (OPEN,))
    (tmp_path / "fd").mkdir()
    (tmp_path / "fd" / "17").symlink_to("/data/a.jpg")
    (tmp_path / "fd" / "18").symlink_to("pipe:[77]")
    task = tmp_path / "task" / "7"
    task.mkdir(parents=True)

    def shown(call, state="S"):
        (task / "syscall").write_text(f"{call}\n")
        (task / "stat").write_text(f"7 (pt_data (w) 0) {state} 1 7 7 0\n")
        return waits_for_storage(7, tmp_path)

    return shown


@pytest.mark.parametrize(
    ("call", "state", "waits"),
    [
        ("running", "R", None),
        (f"{READ} 0x11 0x7f 0x400", "S", "/data/a.jpg"),
        (f"{READ} 0x12 0x7f 0x400", "S", None),  # a pipe: another process
        (f"{READ} 0x13 0x7f 0x400", "D", None),  # closed since
        (f"{OPEN} 0xffffff9c 0x7f", "S", ""),
        (f"{FUTEX} 0x7f 0x80", "S", None),  # the interpreter's lock
        ("-1 0x7ffc 0x7f3a", "D", ""),  # on a page of a mapped file
        ("-1 0x7ffc 0x7f3a", "R", None),
    ],
)
def test_a_thread_waits_for_storage_where_the_kernel_reads_or_opens_for_it(
    thread, call, state, waits
):
    assert thread(call, state) == waits


def test_a_system_that_does_not_show_its_threads_has_none_that_wait(tmp_path):
    assert waits_for_storage(7, tmp_path) is None
    assert reads_so_far(7, tmp_path) is None
    assert filesystem_of("/data/a.jpg", tmp_path) == ""


def test_a_file_is_on_the_file_system_that_is_mounted_nearest(tmp_path):
    (tmp_path / "mountinfo").write_text(MOUNTS)
    files = ("/data/a.jpg", "/data/local/a.jpg", "/database/a.jpg", "/home/a.jpg", "")
    found = [filesystem_of(path, tmp_path) for path in files]
    assert found == ["nfs4", "xfs", "fuse.s3fs", "ext4", ""]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts what a thread reads")
def test_what_a_thread_reads_is_counted(tmp_path):
    file = tmp_path / "sample"
    file.write_bytes(b"x" * 50_000)
    thread = threading.get_native_id()
    before = reads_so_far(thread)
    if before is None:
        pytest.skip("this kernel keeps no account of a thread's reads")

    for _ in range(3):
        file.read_bytes()

    read = reads_so_far(thread).since(before)
    assert read.size_bytes >= 150_000
    assert read.calls >= 3
    assert read.wall_ns > 0
