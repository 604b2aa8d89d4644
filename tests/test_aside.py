import os
import threading

import numpy as np
import pytest

from lightning_gpuprof.aside import aside, second_core


def test_a_result_comes_from_another_process_where_there_is_a_second_core():
    shared = second_core()

    assert (aside(os.getpid)() != os.getpid()) is shared


def test_arrays_come_over_as_they_were_and_may_be_written_to():
    columns = {"a": np.arange(5), "b": np.arange(10_000_000, dtype=np.int8), "c": np.zeros(0)}

    found = aside(lambda: columns)()

    assert all((found[name] == columns[name]).all() for name in columns)
    found["a"][0] = 7


def test_an_exception_is_raised_when_the_result_is_asked_for():
    def fail():
        raise ValueError("no result")

    result = aside(fail)

    with pytest.raises(ValueError, match="no result"):
        result()


def test_what_another_process_could_not_finish_is_done_in_this_one():
    here = os.getpid()

    def dies_elsewhere():
        if os.getpid() != here:
            os._exit(3)
        return "done"

    assert aside(dies_elsewhere)() == "done"


def test_beside_threads_no_process_is_copied():
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        assert not second_core()
        assert aside(os.getpid)() == os.getpid()
    finally:
        stop.set()
        thread.join()
