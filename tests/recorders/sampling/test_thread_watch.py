import sys
import threading

from lightning_gpuprof.recorders.sampling.thread_watch import ThreadTime, ThreadWatch, thread_times

TRAINS, OTHER, OWN = 1, 2, 3


def times(trains, other, own=0):
    return {
        TRAINS: ThreadTime("MainThread", trains, 5),
        OTHER: ThreadTime("actor", other, 0),
        OWN: ThreadTime("gpuprof-lines", own, 0),
    }


def test_times_are_those_between_the_first_sample_and_the_last():
    readings = iter([times(100, 40), times(160, 70, 30)])
    clock = iter([1_000, 1_200])
    watch = ThreadWatch(lambda: next(readings), lambda: next(clock))
    watch.saw({OTHER: sys._getframe()}, TRAINS)
    watch.end()
    found = watch.use(TRAINS)
    assert (found.watched_ns, found.cpu_ns, found.queued_ns) == (200, 60, 0)
    (other,) = found.others
    assert (other.name, other.cpu_ns) == ("actor", 30)
    assert other.function == "test_times_are_those_between_the_first_sample_and_the_last"


def test_a_thread_that_began_later_counts_from_its_beginning():
    readings = iter([{TRAINS: ThreadTime("MainThread", 0, 0)}, times(10, 40)])
    watch = ThreadWatch(lambda: next(readings), lambda: 0)
    watch.saw({}, TRAINS)
    assert watch.use(TRAINS).others[0].cpu_ns == 40


def test_where_the_system_keeps_no_account_nothing_is_known():
    watch = ThreadWatch(dict)
    watch.saw({}, TRAINS)
    assert watch.use(TRAINS) is None


def test_without_a_sample_nothing_is_known():
    assert ThreadWatch().use(TRAINS) is None


def test_a_threads_time_grows_as_it_computes():
    before = thread_times().get(threading.get_ident())
    if before is None:
        return
    sum(range(1_000_000))
    assert thread_times()[threading.get_ident()].cpu_ns > before.cpu_ns
