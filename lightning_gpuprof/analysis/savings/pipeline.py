"""Operational analysis of a loader with workers: what a step takes if its batches become cheaper.

The training process and the workers form a pipeline on shared cores. Its demands per step are
measured: CPU time of the training process, CPU time of the workers and their waits for storage or
anything else but a core, and how much longer all of it takes because processes wait for a core.
Whatever the order of events, a step lies between two bounds (Denning and Buzen 1978; Lazowska et
al. 1984, chapter 5): the largest demand alone, if everything overlaps, and the sum of all, if
nothing does. Where today's step lies between them is how much overlaps today; a change alters the
demands, not the overlap. docs/adr/0031 has the formulas.
"""

from dataclasses import dataclass, replace

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.worker_lines import asleep_frac, made_in_ns, storage_frac

OVERLAP_ERROR = 0.1
"""How far the overlap after a change may be from today's, as a share of the way between bounds. Of
600 simulated changes 96 % lie within, give or take 3 % (docs/adr/0031)."""
EXPLAINED_FRAC = 0.15
"""A step outside its bounds by more than this share is not explained by the model."""

STARVED_FRAC = 0.02
"""Steps wait for workers if no batch is ready for at least this share of them."""


@dataclass(frozen=True)
class Pipeline:
    """Demands per step, in ns.

    Args:
        step_ns: The measured step.
        train_ns: CPU time of the training process.
        make_ns: CPU time of the workers for a batch.
        storage_ns: What the workers wait for storage, or anything else but a core, for a batch.
        workers: The number of workers.
        cores: The cores of this rank.
        others: How many other processes compete for these cores, on average.
    """

    step_ns: float
    train_ns: float
    make_ns: float
    storage_ns: float
    workers: int
    cores: int
    others: float
    queued_ns: float
    """The share of the step in which the training process waited for a core."""

    @classmethod
    def of(cls, run: RunResults) -> "Pipeline | None":
        """Return the pipeline of a run; None if its demands were not measured."""
        loader, cores, made_ns = run.start.loader, run.cores, made_in_ns(run)
        wait, step_ns = run.facts.core_wait, run.step_ns
        empty_frac = run.loader.wait.workers_frac
        if loader is None or not loader.num_workers or not cores or made_ns is None:
            return None
        if wait is None or not step_ns or empty_frac is None or run.wait_ns is None:
            return None
        return cls.measured(
            step_ns=step_ns,
            empty_ns=empty_frac * run.wait_ns,
            queued_ns=min(wait.frac, 1.0) * step_ns,
            made_ns=made_ns,
            storage_frac=max(storage_frac(run) or 0.0, asleep_frac(run) or 0.0),
            workers=loader.num_workers,
            cores=cores,
        )

    @classmethod
    def measured(
        cls,
        *,
        step_ns: float,
        empty_ns: float,
        queued_ns: float,
        made_ns: float,
        storage_frac: float,
        workers: int,
        cores: int,
    ) -> "Pipeline":
        """Return the demands that explain what was measured per step.

        Args:
            step_ns: The step.
            empty_ns: Its share in which no batch was ready.
            queued_ns: Its share in which the training process was ready and waited for a core.
            made_ns: What a worker takes for a batch by the clock.
            storage_frac: The share of that in which it waits for anything but a core.
            workers: The number of workers.
            cores: The cores of this rank.
        """
        active_ns = max(step_ns - empty_ns, 1.0)
        queued_ns = min(queued_ns, 0.95 * active_ns)
        stretch = active_ns / (active_ns - queued_ns)
        computing_ns = made_ns * (1 - storage_frac)
        # On average so many processes are ready; beyond the cores they stretch each other.
        own = (active_ns + computing_ns) / step_ns
        return cls(
            step_ns=step_ns,
            train_ns=active_ns - queued_ns,
            make_ns=computing_ns / stretch,
            storage_ns=made_ns * storage_frac,
            workers=workers,
            cores=cores,
            others=max(0.0, stretch * cores - own) if stretch > 1.0 else 0.0,
            queued_ns=queued_ns,
        )

    @property
    def per_worker_ns(self) -> float:
        """What making a batch takes of a step if all workers do nothing else."""
        return (self.make_ns + self.storage_ns) / self.workers

    @property
    def starves(self) -> bool:
        """Whether steps wait for batches that no worker has ready."""
        empty_ns = self.step_ns - self.train_ns - self.queued_ns
        return empty_ns >= STARVED_FRAC * self.step_ns

    def least_lost_frac(self, each_ns: float, prefetch: int) -> float:
        """Return the least share of rare work that is lost while workers make batches meanwhile.

        Args:
            each_ns: What the training process works each time.
            prefetch: How many batches a worker makes ahead.
        """
        if not self.starves or not each_ns:
            return 1.0
        return 1 - min(1.0, self.workers * prefetch * self.per_worker_ns / each_ns)

    @property
    def bounds_ns(self) -> tuple[float, float]:
        """The least and the most that a step takes with these demands."""
        on_cores_ns = (self.train_ns + self.make_ns) / self.cores
        crowd = max(1.0, (1 + self.others) / self.cores)
        least_ns = max(self.train_ns * crowd, self.per_worker_ns, on_cores_ns)
        crowded = max(1.0, (1 + self.workers + self.others) / self.cores)
        most_ns = crowded * (self.train_ns + self.make_ns / self.workers)
        return least_ns, max(least_ns, most_ns + self.storage_ns / self.workers)

    @property
    def explains_step(self) -> bool:
        """Whether the measured step lies between the bounds, but for a small error."""
        least_ns, most_ns = self.bounds_ns
        return (1 - EXPLAINED_FRAC) * least_ns <= self.step_ns <= (1 + EXPLAINED_FRAC) * most_ns

    @property
    def serial_frac(self) -> float:
        """How much is done one after the other: 0 at the lower bound, 1 at the upper."""
        least_ns, most_ns = self.bounds_ns
        if most_ns <= least_ns:
            return 0.0
        return min(1.0, max(0.0, (self.step_ns - least_ns) / (most_ns - least_ns)))

    def step_without(self, low_frac: float, high_frac: float) -> tuple[float, float]:
        """Return the least and the most that a step takes without a share of making batches.

        Args:
            low_frac: The share of the workers' work that goes at least.
            high_frac: The share that goes at most.
        """
        serial = self.serial_frac
        least_ns, most_ns = self._cheaper(high_frac).bounds_ns
        # The less work is left, the more of it is done ahead.
        hidden = (1 - high_frac) * max(0.0, serial - OVERLAP_ERROR)
        low_ns = least_ns + hidden * (most_ns - least_ns)
        least_ns, most_ns = self._cheaper(low_frac).bounds_ns
        high_ns = least_ns + min(1.0, serial + OVERLAP_ERROR) * (most_ns - least_ns)
        return min(low_ns, self.step_ns), min(high_ns, self.step_ns)

    def step_with_less_training(self, low_ns: float, high_ns: float) -> tuple[float, float]:
        """Return the least and the most that a step takes with less work in the training process.

        Args:
            low_ns: What goes at least, of CPU time per step.
            high_ns: What goes at most.
        """
        serial = self.serial_frac
        least_ns, most_ns = self._training_less(high_ns).bounds_ns
        new_low_ns = least_ns + max(0.0, serial - OVERLAP_ERROR) * (most_ns - least_ns)
        least_ns, most_ns = self._training_less(low_ns).bounds_ns
        new_high_ns = least_ns + min(1.0, serial + OVERLAP_ERROR) * (most_ns - least_ns)
        return min(new_low_ns, self.step_ns), min(new_high_ns, self.step_ns)

    def _training_less(self, gone_ns: float) -> "Pipeline":
        return replace(self, train_ns=max(0.0, self.train_ns - gone_ns))

    def _cheaper(self, frac: float) -> "Pipeline":
        left = 1 - frac
        return replace(self, make_ns=left * self.make_ns, storage_ns=left * self.storage_ns)
