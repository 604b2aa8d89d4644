"""The inputs that rules may need: how to tell that a run has one, and what to say if it has not."""

from collections.abc import Callable
from typing import NamedTuple

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import trace_facts

MIN_SAMPLES = 50
"""At fifty samples a share of a tenth is known to within nine hundredths."""


class Need(NamedTuple):
    """One input."""

    met: Callable[[RunResults], bool]
    missing: str
    by_trace: bool = False


def _on_device(run: RunResults) -> bool:
    facts = trace_facts(run)
    return run.step_ns is not None and facts is not None and facts.on_device


def _operators(run: RunResults) -> bool:
    facts = trace_facts(run)
    if run.step_ns is None or facts is None or facts.doubted:
        return False
    return bool(facts.rows("operators"))


NEEDS = {
    "training": Need(
        lambda run: run.start.stage == "fit",
        "it judges training, and this run trains nothing",
        by_trace=True,
    ),
    "steps": Need(lambda run: bool(run.phases and run.step_ns), "no step was recorded"),
    "steps or kernels": Need(
        lambda run: bool(run.phases and run.step_ns) or _on_device(run),
        "no step was recorded",
        True,
    ),
    "trace": Need(lambda run: trace_facts(run) is not None, "it takes an analysed trace", True),
    "operators": Need(_operators, "it takes an analysed trace with operators", True),
    "kernels": Need(_on_device, "it takes an analysed trace with kernels of a GPU", True),
    "waits or kernels": Need(
        lambda run: (
            run.start.world_size < 2
            or bool(run.ranks.waits or run.ranks.exchange_at_most_ns)
            or _on_device(run)
        ),
        "it takes each rank's exchange of gradients, or an analysed trace with kernels of a GPU",
        True,
    ),
    "marks or trace": Need(
        lambda run: bool(run.device.time or trace_facts(run)),
        "it takes device marks or an analysed trace",
        True,
    ),
    "syncs or trace": Need(
        lambda run: bool(run.facts.syncs_watched or run.facts.sync_sites or trace_facts(run)),
        "it takes an analysed trace, or `lightning-gpuprof inspect`, which names lines that wait",
        True,
    ),
    "lines": Need(
        lambda run: run.lines is not None and run.lines.whole >= MIN_SAMPLES,
        f"it takes {MIN_SAMPLES} samples of the training thread's stack",
    ),
    "lines or operators": Need(
        lambda run: bool(run.step_ns and (run.lines or trace_facts(run))),
        "it takes samples of the training thread's stack, or an analysed trace",
        True,
    ),
    "gpu": Need(lambda run: run.on_gpu, "training did not run on a GPU"),
    "device memory": Need(lambda run: run.memory.use is not None, "device memory was not measured"),
    "device readings": Need(
        lambda run: run.device.use is not None,
        "the driver was not read: it takes nvidia-ml-py or amdsmi, and some seconds of training",
    ),
    "epoch starts": Need(
        lambda run: run.epochs.starts is not None, "no start of an epoch was measured"
    ),
    "rank waits": Need(
        lambda run: run.start.world_size < 2 or run.ranks.waits is not None,
        "it takes the records of all ranks, with how long each waits for the others",
    ),
    "model": Need(
        lambda run: bool(run.start.model.get("dtypes")), "the model's parameters were not recorded"
    ),
}
