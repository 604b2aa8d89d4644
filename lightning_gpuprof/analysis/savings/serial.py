"""How much a step gets shorter without work that the training process does by itself.

Validation, checkpoints, callbacks and logging are serial: while the training process does them, it
begins no step. Work of `each_ns` that occurs once in `every` steps is a demand of `each_ns / every`
per step on that process (the forced flow law), and what its removal saves follows from the demands
that are left (docs/adr/0031):

- Without workers, or while these are idle, all of it.
- Work in each step, with workers: the pipeline's bounds without it. A step that waits for workers
  gets no shorter, because it waits for the same batches.
- Rare work, with workers that steps wait for: these make batches meanwhile, as many as they may
  hold, for which steps do not wait later. So much of the time was not lost.
- On a GPU, host work costs only the time in which the device had nothing queued.
"""

from dataclasses import replace

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import Exposed, around, exposed
from lightning_gpuprof.analysis.savings.pipeline import EXPLAINED_FRAC, Pipeline
from lightning_gpuprof.records.phases import Phase

PREFETCH = 2
"""Batches that a worker makes ahead, unless `prefetch_factor` says otherwise."""
EACH_STEP = 2
"""Work that occurs more often than once in so many steps is work of each step."""


def without_serial_work(
    run: RunResults,
    phase: Phase,
    each_ns: float,
    every: float = 1.0,
    *,
    gone_frac: tuple[float, float] = (1.0, 1.0),
    on_device: bool = False,
    amid_epochs: bool = True,
) -> Exposed:
    """Return by how much a mean step gets shorter without serial work.

    Args:
        run: The run's results.
        phase: Where the work is done.
        each_ns: What it takes each time.
        every: Once in how many steps it occurs.
        gone_frac: The least and the most of it that the change takes away.
        on_device: Whether the change takes away the device's work in it too.
        amid_epochs: Whether workers may make batches meanwhile. Between epochs there is none left
            to make.
    """
    low_ns, high_ns = (round(frac * each_ns / every) for frac in gone_frac)
    least, most = (
        Exposed(*around(gone_ns, run.step_ns if amid_epochs else None), "cpu")
        if on_device or not amid_epochs
        else exposed(run, phase, gone_ns)
        for gone_ns in (low_ns, high_ns)
    )
    lost = Exposed(least.low_ns, most.high_ns, most.basis)
    pipeline = Pipeline.of(run) if amid_epochs else None
    if pipeline is None or not pipeline.explains_step:
        return lost
    if every >= EACH_STEP:
        prefetch = (run.start.loader and run.start.loader.prefetch_factor) or PREFETCH
        return replace(
            lost, low_ns=round(lost.low_ns * pipeline.least_lost_frac(each_ns, prefetch))
        )
    if run.on_gpu:
        bounds = (pipeline.per_worker_ns * (1 + sign * EXPLAINED_FRAC) for sign in (1, -1))
        low_ns, high_ns = (max(0, round(pipeline.step_ns - bound)) for bound in bounds)
        return replace(lost, low_ns=min(lost.low_ns, low_ns), high_ns=min(lost.high_ns, high_ns))
    new_low_ns, new_high_ns = pipeline.step_with_less_training(lost.low_ns, lost.high_ns)
    return replace(
        lost,
        low_ns=round(pipeline.step_ns - new_high_ns),
        high_ns=round(pipeline.step_ns - new_low_ns),
    )
