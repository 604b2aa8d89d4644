"""The inputs that rules may need, with a test for each and a message if a run lacks it."""

from collections.abc import Callable
from typing import NamedTuple

from lightning_gpuprof.analysis.run.gpu_busy import gpu_busy
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.settings import settings_of
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.records.device_marks import StepState

MIN_SAMPLES = 50
"""With 50 samples, the 95 % interval of a share of 0.1 is about 0.09 wide to either side."""


class Need(NamedTuple):
    """An input of rules.

    Args:
        met: Returns whether a run has the input.
        missing: What to say of a run that lacks it.
        by_trace: Whether a trace without a run's records may have it.
    """

    met: Callable[[RunResults], bool]
    missing: str
    by_trace: bool = False


def _on_device(run: RunResults) -> bool:
    facts = trace_facts(run)
    return run.step_ns is not None and facts is not None and facts.on_device


def stops(run: RunResults) -> bool:
    """Return whether device marks show that most steps wait for reads of the device."""
    busy = gpu_busy(run)
    return busy is not None and busy.state is StepState.SYNC_BOUND


def _operators(run: RunResults) -> bool:
    facts = trace_facts(run)
    if run.step_ns is None or facts is None or facts.doubted:
        return False
    return bool(facts.analysis.operators)


NEEDS = {
    "training": Need(
        lambda run: run.trains,
        "it is about training, and this run does not train",
        by_trace=True,
    ),
    "steps": Need(lambda run: bool(run.phases and run.step_ns), "no step was recorded"),
    "steps or kernels": Need(
        lambda run: bool(run.phases and run.step_ns) or _on_device(run),
        "no step was recorded",
        by_trace=True,
    ),
    "trace": Need(
        lambda run: trace_facts(run) is not None, "it needs an analysed trace", by_trace=True
    ),
    "operators": Need(_operators, "it needs an analysed trace with operators", by_trace=True),
    "kernels": Need(_on_device, "it needs an analysed trace with kernels of a GPU", by_trace=True),
    "waits or kernels": Need(
        lambda run: (
            run.start.world_size < 2
            or bool(run.ranks.waits or run.ranks.exchange_at_most_ns)
            or _on_device(run)
        ),
        "it needs each rank's exchange of gradients, or an analysed trace with kernels of a GPU",
        by_trace=True,
    ),
    "marks or trace": Need(
        lambda run: bool(run.device.time or trace_facts(run)),
        "it needs timing events on the device, or an analysed trace",
        by_trace=True,
    ),
    "syncs or trace": Need(
        lambda run: bool(
            run.facts.syncs_watched or run.facts.sync_sites or trace_facts(run) or stops(run)
        ),
        "it needs an analysed trace, or `lightning-gpuprof inspect`, which names lines that wait",
        by_trace=True,
    ),
    "lines": Need(
        lambda run: run.lines is not None and run.lines.whole >= MIN_SAMPLES,
        f"it needs {MIN_SAMPLES} samples of the training thread's stack",
    ),
    "lines or operators": Need(
        lambda run: bool(run.step_ns and (run.lines or trace_facts(run))),
        "it needs samples of the training thread's stack, or an analysed trace",
        by_trace=True,
    ),
    "gpu": Need(lambda run: run.on_gpu, "training did not run on a GPU"),
    "device memory": Need(lambda run: run.memory.use is not None, "device memory was not measured"),
    "worker memory": Need(
        lambda run: run.memory.workers is not None,
        "it needs a loader with workers, a Linux with /proc and some seconds of training",
    ),
    "stream batches": Need(
        lambda run: run.facts.stream_batches is not None,
        "it needs a loader with several workers and an IterableDataset",
    ),
    "kept predictions": Need(
        lambda run: run.facts.kept_predictions is not None,
        "no output of predict is kept until its end",
    ),
    "stage work": Need(
        lambda run: run.facts.stage_work is not None,
        "it needs a data module with prepare_data or setup",
    ),
    "metrics": Need(
        lambda run: bool(run.facts.metrics), "no metric keeps the values of all batches"
    ),
    "device readings": Need(
        lambda run: run.device.use is not None,
        "the driver was not read: it needs nvidia-ml-py or amdsmi, and some seconds of training",
    ),
    "epoch starts": Need(
        lambda run: run.epochs.starts is not None, "no start of an epoch was measured"
    ),
    "rank waits": Need(
        lambda run: run.start.world_size < 2 or run.ranks.waits is not None,
        "it needs the records of all ranks, with how long each rank waits for the others",
    ),
    "model": Need(
        lambda run: bool(settings_of(run.start).dtypes), "the model's parameters were not recorded"
    ),
}
