"""A device that exists only as arithmetic: a queue, its own clock, and events to ask for.

Time is the test's fake host clock. `launch` queues work, `sync` waits for it as `.item()` would,
`record`, `query` and `elapsed_ns` are what the package's marks call.
"""


class FakeEvent:
    def __init__(self):
        self.passed_ns = None  # on the host's clock; what the device's clock says follows from it
        self.seen_ns = None  # when `query` begins to say so


class FakeDevice:
    """One stream.

    Args:
        clock: A fake host clock with `now_ns`.
        launch_ns: What queueing work costs the host.
        latency_ns: From queueing to the start on an idle device.
        depth: Work in flight at most: with more, the host waits, as CUDA's queue makes it.
        drift: The device's clock runs faster by this share.
        late_ns: Events are seen this long after they passed; None for never.
        poll_ns: What asking for an event costs the host where it has not passed.
        fails_after: So many events can be recorded, then `record` raises.
    """

    def __init__(
        self,
        clock,
        *,
        launch_ns=0,
        latency_ns=0,
        depth=1024,
        drift=0.0,
        late_ns=0,
        poll_ns=0,
        fails_after=None,
    ):
        self.clock = clock
        self.launch_ns, self.latency_ns, self.depth = launch_ns, latency_ns, depth
        self.drift, self.late_ns, self.fails_after = drift, late_ns, fails_after
        self.poll_ns = poll_ns
        self.free_ns = 0
        self.queue = []
        self.recorded = self.made = 0
        self.in_capture = False

    def launch(self, work_ns):
        """Queue work of this length."""
        self.clock.now_ns += self.launch_ns
        self.queue = [end for end in self.queue if end > self.clock.now_ns]
        if len(self.queue) >= self.depth:
            self.clock.now_ns = self.queue[-self.depth]
        self.free_ns = max(self.free_ns, self.clock.now_ns + self.latency_ns) + work_ns
        self.queue.append(self.free_ns)

    def sync(self):
        """Wait for all that was queued."""
        self.clock.now_ns = max(self.clock.now_ns, self.free_ns)

    def new_event(self):
        self.made += 1
        return FakeEvent()

    def record(self, event):
        if self.in_capture:
            return False
        if self.fails_after is not None and self.recorded >= self.fails_after:
            raise RuntimeError("device-side assert")
        self.recorded += 1
        event.passed_ns = max(self.free_ns, self.clock.now_ns + self.latency_ns)
        event.seen_ns = None if self.late_ns is None else event.passed_ns + self.late_ns
        return True

    def query(self, event):
        assert not self.in_capture, "asking ends the capture"
        passed = event.seen_ns is not None and event.seen_ns <= self.clock.now_ns
        self.clock.now_ns += 0 if passed else self.poll_ns
        return passed

    def capturing(self):
        return self.in_capture

    def elapsed_ns(self, earlier, later):
        if not self.query(later):
            return None
        return round((later.passed_ns - earlier.passed_ns) * (1 + self.drift))

    def __deepcopy__(self, memo):
        return self
