"""A device whose memory exists only as arithmetic, and what its driver says."""

from lightning_gpuprof.memory.device import MemoryReading
from lightning_gpuprof.recorders.device.device_stats import StatsReading

MIB = 2**20
TOTAL = 10_000 * MIB


class FakeCard:
    """A card on which the model takes 1000 MiB and each sample 50; peaks only rise, as torch's do.

    The first reading is the one before training. `before` are the MiB of the peak before training;
    500 MiB lie outside torch.
    """

    def __init__(self, samples, *, retries=(0,), before=0):
        self.samples = samples
        self.retries = list(retries)  # by reading; the last one stays
        self.peak = before * MIB
        self.reads = 0

    def read(self):
        self.reads += 1
        if self.reads > 1:
            self.peak = max(self.peak, (1_000 + 50 * self.samples) * MIB)
        return MemoryReading(
            allocated_bytes=1_000 * MIB,
            reserved_bytes=self.peak,
            peak_allocated_bytes=self.peak,
            peak_reserved_bytes=self.peak,
            split_bytes=0,
            free_bytes=TOTAL - self.peak - 500 * MIB,
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
