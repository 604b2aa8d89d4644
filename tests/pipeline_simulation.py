"""A loader's pipeline, event by event: the exact answer that the model is checked by.

A training process and workers share cores fairly with other programs that never rest. Workers make
batches ahead, two each, and wait for storage before they compute. The training process takes the
batches in order.
"""

from dataclasses import dataclass

PREFETCH = 2


@dataclass(frozen=True)
class Measured:
    """Per step, in ns: what the profiler measures of the training process and the workers."""

    step_ns: float
    empty_ns: float
    queued_ns: float
    made_ns: float
    storage_frac: float


class Worker:
    """Makes every n-th batch: waits for storage, then computes."""

    def __init__(self, storage_ns, make_ns):
        self.storage_ns, self.make_ns = storage_ns, make_ns
        self.ready, self.blocked_ns, self.computing_ns = 0, 0.0, 0.0

    def begin(self):
        """Begin the next batch if there is room for it."""
        if not self.blocked_ns and not self.computing_ns and self.ready < PREFETCH:
            self.blocked_ns, self.computing_ns = self.storage_ns, self.make_ns


def simulate(
    *, train_ns, make_ns, storage_ns=0.0, workers, cores, others=0, steps=400, rare_ns=0.0, every=50
):
    """Run a pipeline; returns what would be measured of the second half of its steps.

    Once in `every` steps the training process works for `rare_ns` more.
    """
    pool = [Worker(storage_ns, make_ns) for _ in range(workers)]
    now = empty = queued = made = blocked = 0.0
    left, step, start = 0.0, 0, 0.0
    while step < steps:
        if step == steps // 2 and not start:
            start, empty, queued, made, blocked = now, 0.0, 0.0, 0.0, 0.0
        turn = pool[step % workers]
        if not left and turn.ready:
            turn.ready -= 1
            left = train_ns + (0.0 if step % every else rare_ns)
        for worker in pool:
            worker.begin()
        training = left > 0
        computing = [worker for worker in pool if worker.computing_ns and not worker.blocked_ns]
        waiting = [worker for worker in pool if worker.blocked_ns]
        ready = len(computing) + training + others
        rate = min(1.0, cores / ready) if ready else 1.0
        ends = [worker.computing_ns / rate for worker in computing]
        ends += [worker.blocked_ns for worker in waiting] + ([left / rate] if training else [])
        span = min(ends)
        now += span
        empty += 0.0 if training else span
        queued += (1 - rate) * span if training else 0.0
        made += span * (len(computing) + len(waiting))
        blocked += span * len(waiting)
        for worker in waiting:
            worker.blocked_ns = _rest(worker.blocked_ns - span)
        for worker in computing:
            worker.computing_ns = _rest(worker.computing_ns - span * rate)
            worker.ready += not worker.computing_ns
        if training:
            left = _rest(left - span * rate)
            step += not left
    counted = steps - steps // 2
    return Measured(
        step_ns=(now - start) / counted,
        empty_ns=empty / counted,
        queued_ns=queued / counted,
        made_ns=made / counted,
        storage_frac=blocked / made if made else 0.0,
    )


def _rest(value):
    return value if value > 1e-6 else 0.0
