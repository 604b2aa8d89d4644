"""Blocks that are read in a thread, one ahead of what is decoded."""

import threading

import pytest

from lightning_gpuprof.traces.files import read_ahead


def test_blocks_come_in_order_and_from_another_thread():
    threads = set()

    def blocks():
        for number in range(5):
            threads.add(threading.current_thread())
            yield bytes([number])

    assert b"".join(read_ahead(blocks())) == bytes(range(5))
    assert threading.current_thread() not in threads


def test_an_error_reaches_whoever_asks_for_the_block():
    def blocks():
        yield b"a"
        raise OSError("the disk is gone")

    ahead = read_ahead(blocks())
    assert next(ahead) == b"a"
    with pytest.raises(OSError, match="gone"):
        next(ahead)


def test_whoever_stops_early_leaves_no_thread():
    before = threading.active_count()
    ahead = read_ahead(iter([b"a", b"b", b"c"]))
    assert next(ahead) == b"a"
    ahead.close()
    assert threading.active_count() == before
