"""A device whose memory exists only as arithmetic."""

from lightning_gpuprof.probes.memory.memory import MemoryReading, PoolPeaks

MIB = 2**20
TOTAL = 10_000 * MIB


class FakeCard:
    """A card on which each sample takes 50 MiB and the model 1000; a peak is read once.

    `others` are MiB outside torch, `graphs` whether CUDA graphs hold memory; `phases` are the
    peaks, in MiB, of the parts of a step that is looked at.
    """

    def __init__(
        self, samples, *, others=500, graphs=False, resting=1_000, phases=(), retries=(0,)
    ):
        self.samples = samples
        self.retries = list(retries)  # by reading; the last one stays
        self.others = others
        self.graphs = graphs
        self.resting = resting
        self.phases = list(phases)
        self.reads = 0

    def read(self):
        self.reads += 1
        peak = (1_000 + 50 * self.samples) * MIB
        return MemoryReading(
            allocated_bytes=self.resting * MIB,
            reserved_bytes=peak,
            active_bytes=1_000 * MIB,
            peak_allocated_bytes=peak,
            peak_reserved_bytes=peak,
            free_bytes=TOTAL - peak - self.others * MIB,
            total_bytes=TOTAL,
            alloc_retries=self.retries[min(self.reads, len(self.retries)) - 1],
            ooms=0,
        )

    def peaks(self):
        peak = self.phases.pop(0) * MIB if self.phases else 0
        return PoolPeaks(peak, peak, 0)

    def graph_pools(self):
        return self.graphs
