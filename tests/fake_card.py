"""A device whose memory exists only as arithmetic, and what its driver says."""

from lightning_gpuprof.memory.device import MemoryReading
from lightning_gpuprof.recorders.device.device_stats import StatsReading

MIB = 2**20
TOTAL = 10_000 * MIB


class FakeCard:
    """A card on which the model takes 1000 MiB and each sample 50; peaks only rise, as torch's do.

    The first reading is the one before training. `others` are MiB outside torch, `before` the
    MiB of the peak before training.
    """

    def __init__(self, samples, *, others=500, resting=1_000, retries=(0,), before=0, split=0):
        self.samples = samples
        self.retries = list(retries)  # by reading; the last one stays
        self.others = others
        self.resting = resting
        self.split = split
        self.peak = before * MIB
        self.reads = 0

    def read(self):
        self.reads += 1
        if self.reads > 1:
            self.peak = max(self.peak, (1_000 + 50 * self.samples) * MIB)
        return MemoryReading(
            allocated_bytes=self.resting * MIB,
            reserved_bytes=self.peak,
            peak_allocated_bytes=self.peak,
            peak_reserved_bytes=self.peak,
            split_bytes=self.split * MIB,
            free_bytes=TOTAL - self.peak - self.others * MIB,
            total_bytes=TOTAL,
            alloc_retries=self.retries[min(self.reads, len(self.retries)) - 1],
            ooms=0,
        )


class FakeStats:
    """A driver that always says the same."""

    closed = False

    def read(self):
        return StatsReading(busy_frac=0.5, temperature_c=70)

    def close(self):
        self.closed = True
