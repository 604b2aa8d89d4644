"""Puts times of a device's clock on the host's clock.

Events give only differences of device time. A *calibration* ties one device time to the host's
clock: at a moment when the device is idle an event is recorded, and the host asks for it, without
blocking, until it is seen to have passed: not yet at host time `low`, but at `high`. The device's
time of the event lies between the two, so that

    offset = (low + high) / 2 - device time,    wrong by at most (high - low) / 2.

The two clocks run at slightly different rates. From the first calibration and the newest, once
they are ten seconds apart, comes the rate of the difference, by which the newest offset is
carried on:

    host time = device time + offset + rate * (device time - device time of the newest)

In between, cause and effect correct it: no device passes an event before the host recorded it.
Where the line above says so, the offset is raised by as much. Run-ahead (host time of passing
an event, less host time of recording it) is therefore never negative.
"""

MAX_ERROR_NS = 100_000
"""A calibration that is vaguer than this says nothing: launch latency is a tenth of it."""
_RATE_AFTER_NS = 10_000_000_000


class DeviceClock:
    """The line from device time to host time, in integer ns.

    >>> clock = DeviceClock()
    >>> clock.calibrate(1_000, low_ns=50_000, high_ns=50_010)
    True
    >>> clock.run_ahead(3_000, 52_000), clock.error_ns
    (5, 5)
    """

    def __init__(self) -> None:
        self.error_ns: int | None = None
        self._first: tuple[int, int] | None = None
        self._newest_ns = self._offset_ns = 0
        self._rate = 0.0

    def calibrate(self, device_ns: int, *, low_ns: int, high_ns: int) -> bool:
        """Take a calibration; returns whether it was sharp enough to be of use."""
        error = (high_ns - low_ns) // 2
        if error > MAX_ERROR_NS:
            return False
        offset = low_ns + error - device_ns
        if self._first is None:
            self._first = (device_ns, offset)
        first_ns, first_offset = self._first
        if device_ns - first_ns >= _RATE_AFTER_NS:
            self._rate = (offset - first_offset) / (device_ns - first_ns)
        self._newest_ns, self._offset_ns, self.error_ns = device_ns, offset, error
        return True

    def run_ahead(self, device_ns: int, recorded_ns: int) -> int | None:
        """Return how long after the host recorded an event the device passed it.

        Both on the host's clock; None before the first calibration.
        """
        if self.error_ns is None:
            return None
        drifted = round(self._rate * (device_ns - self._newest_ns))
        ahead = device_ns + self._offset_ns + drifted - recorded_ns
        if ahead < 0:
            self._offset_ns -= ahead
            return 0
        return ahead
