"""Much of what the model computes is padding.

## Symptom
Batches hold sequences of different lengths, and most positions of a batch are the padding value.

## Why
A model computes padding like everything else, and attention does so with the square of the length.
Padding to a fixed limit costs that for every batch, however short its sequences are.

## Fix
```python
tokenizer(texts, padding="max_length", max_length=512)  # before
DataCollatorWithPadding(tokenizer)  # after: to the longest of the batch
```

With tensors of your own, the collate function pads (`torch.nn.utils.rnn.pad_sequence`). Batches of
sequences that are alike in length have less padding still: sort by length within large pools, or
use a batch sampler that does.

## How it is measured
In four of the first 16 batches, `padded_frac` is the share of positions in runs of an equal value
at the end or the beginning of rows, and `common_padding_frac` the share of those that are padding
in every row of their batch. Without the latter, forward and backward compute that much less, half
as much if part of the model does not depend on the length, and more if attention does.

## Limits
What equal values mean is not known: a model may need a fixed length. The saving of batches of alike
lengths is not certain, because it depends on how lengths are spread.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.settings import settings_of
from lightning_gpuprof.analysis.savings.hidden import faster_kernels
from lightning_gpuprof.analysis.savings.host_work import COMPUTE
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Range
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.units import percent

MIN_COMMON_FRAC = 0.15
MIN_PADDED_FRAC = 0.4
"""Batches of random lengths, padded to the longest, have a third of padding or so, as usual."""
LOW_FRAC = 0.5
EFFORT = Effort(
    Horizon.QUICK,
    "padding moved to the collate function",
    "shapes change from batch to batch",
)
BUCKET_EFFORT = Effort(
    Horizon.MEDIUM, "a sampler that groups samples by length", "batches are less random"
)
LONGEST = "Pad to the longest sequence of the batch in the collate function, not to a fixed length."
ALIKE = (
    "Put sequences of alike length into a batch: sort by length within large pools, or use a batch "
    "sampler that does. Or pack several into a row."
)
COMPILED = " The model is compiled: pad to a few lengths, such as multiples of 64."


@rule(id="padded-batches", needs=("steps",), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the finding about the padded tensor with the most padding."""
    sizes = run.facts.batch_sizes
    padding = max(
        sizes[0].padding if sizes else (),
        key=lambda padding: (padding.common_frac, padding.padded_frac),
        default=None,
    )
    if padding is None:
        return None
    to_limit = padding.common_frac >= MIN_COMMON_FRAC
    if not to_limit and padding.padded_frac < MIN_PADDED_FRAC:
        return None
    share = padding.common_frac if to_limit else padding.padded_frac
    cause_ns = sum(per.mean_ns for per in map(run.per_step, COMPUTE) if per is not None)
    saving = _saving(run, cause_ns, share, to_limit=to_limit)
    whose = "in every row" if to_limit else "of unequal rows"
    advice = LONGEST if to_limit else ALIKE
    if to_limit and padding.padded_frac - padding.common_frac >= MIN_COMMON_FRAC:
        advice += f" Then {ALIKE[0].lower()}{ALIKE[1:]}"
    return Finding(
        title=f"{percent(share)} of {padding.name} ({_shape(padding.shape)}) is padding {whose}",
        advice=advice + (COMPILED if settings_of(run.start).compiled else ""),
        evidence={
            "padded_frac": padding.padded_frac,
            "common_padding_frac": padding.common_frac,
            "compute_ns": cause_ns,
        },
        saving_ns=saving,
        cause_ns=Range(cause_ns, cause_ns),
        confidence=0.7 if to_limit else 0.4,
        places=tuple(Place(phase=phase.value) for phase in COMPUTE if run.per_step(phase)),
        effort=EFFORT if to_limit else BUCKET_EFFORT,
        explains=("costly-line",),
    )


def _saving(run: RunResults, compute_ns: int, share: float, *, to_limit: bool) -> Range:
    """Return what shorter sequences save of forward and backward.

    At most, the time is that of attention and goes with the square of the length.
    """
    low_ns, high_ns = LOW_FRAC * share * compute_ns, share * (2 - share) * compute_ns
    if not to_limit:
        low_ns, high_ns = 0.0, share * compute_ns
    if run.on_gpu:
        return Range(*faster_kernels(run, measured(run.step_ns), low_ns, high_ns))
    return Range(round(low_ns), round(high_ns))


def _shape(lengths: tuple[int, ...]) -> str:
    return " x ".join(map(str, lengths))
