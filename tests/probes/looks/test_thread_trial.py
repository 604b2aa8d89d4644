import torch

from lightning_gpuprof.probes.looks.thread_trial import thread_trial


class Threads:
    """As many threads as were set; with eight of them all takes longer."""

    def __init__(self, monkeypatch):
        self.count, self.now_ns, self.was = 8, 0, set()
        monkeypatch.setattr(torch, "get_num_threads", lambda: self.count)
        monkeypatch.setattr(torch, "set_num_threads", self.set)

    def set(self, count):
        self.count = count
        self.was.add(count)

    def clock(self):
        self.now_ns += 50 if self.count == 8 else 10
        return self.now_ns


def test_threads_are_tried_and_put_back(monkeypatch):
    threads = Threads(monkeypatch)
    found = thread_trial(threads.clock, cores=2, environ={})
    assert (found.threads, found.cores) == (8, 2)
    assert (found.as_set_ns, found.per_core_ns) == (50, 10)
    assert threads.was == {2, 8}
    assert threads.count == 8


def test_as_many_threads_as_cores_are_not_tried(monkeypatch):
    threads = Threads(monkeypatch)
    assert thread_trial(threads.clock, cores=8, environ={}) is None
    assert not threads.was


def test_threads_that_the_environment_counts_are_left_alone(monkeypatch):
    threads = Threads(monkeypatch)
    assert thread_trial(threads.clock, cores=2, environ={"OMP_NUM_THREADS": "8"}) is None
    assert not threads.was
