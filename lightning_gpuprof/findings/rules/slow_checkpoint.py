"""Checkpoints take a noticeable share of the training time.

## What it measures
`checkpoint_ns`: mean time per steady step in checkpoint callbacks and in saving, on the host clock,
spread over all steps, with what is saved between epochs; `per_checkpoint_ns`: what one of them
takes. Of what a checkpoint holds, `checkpoint_bytes` and `fixed_bytes`: frozen weights, buffers,
and what `save_hyperparameters` has kept.

## Why it matters
A checkpoint gathers the whole state and writes it in the training loop; training waits for the
disk. What no gradient changes is often the same in every one of them.

## What to do
Save less often, or by time (`train_time_interval`); save weights alone where no resume is needed
(`save_weights_only=True`); write in the background (`AsyncCheckpointIO`). Leave out what never
changes: `register_buffer(..., persistent=False)`, or delete frozen weights from the `state_dict` in
`on_save_checkpoint` and load them from where they came.

## Thresholds
The saving is that of the interval proposed: a fifth as often at least, and so seldom that
checkpoints take `TARGET_FRAC` of the time, if the run is long enough; at least with each at the
median (some wait for a disk that is behind), at most at the mean. Where most of the bytes are fixed
(`MOSTLY`), it is that of leaving them out: at most the share of all, at least that of what the code
proposed leaves out: the frozen weights, or by name the largest buffers or hyperparameters, from
`NAMED_FRAC` of these on, or else the largest. Where saving once an epoch, as by default, takes a
good part of the time, epochs are short: it is a setting all the same, in epochs. Severity: the
common scale (`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import around
from lightning_gpuprof.findings.grade import FEWER, grade, seldom
from lightning_gpuprof.findings.model import (
    Abstained,
    Effort,
    Finding,
    Horizon,
    Range,
    When,
    Where,
)
from lightning_gpuprof.records.notes import CHECKPOINT_NOTE, CheckpointContent, last_noted
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent, size

ID = "slow-checkpoint"
EFFORT = Effort(Horizon.QUICK, "one argument of ModelCheckpoint", "a crash loses more steps")
TARGET_FRAC = 0.01
"""The interval proposed keeps checkpoints at about this share of the time."""
MOSTLY = 0.5
NAMED_FRAC = 0.1
"""What takes less of its kind is not worth a line."""


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where saving costs time."""
    mean_ns = None if run.every is None else run.every.mean_ns(Phase.CHECKPOINT)
    step_ns = run.step_ns
    if mean_ns is None or step_ns is None or run.every is None or run.steps is None:
        return Abstained(ID, "no step's checkpoints were measured")
    saves = run.every.flagged.get("checkpoint", 0)
    if not mean_ns or not saves:
        return None
    parts = [part for part in run.parts_of(Phase.CHECKPOINT) if part.per_step is not None]
    each_ns = mean_ns * run.every.steps // saves
    gone_frac, advice, change = _less_often(run, step_ns, mean_ns, saves)
    surely_frac = gone_frac
    content = last_noted(run.notes, CHECKPOINT_NOTE, CheckpointContent)
    filled = content if content and content.fixed_bytes >= MOSTLY * content.whole_bytes else None
    if filled is not None:
        gone_frac = filled.fixed_bytes / filled.whole_bytes
        surely_frac = _named_bytes(filled) / filled.whole_bytes
        advice, change = _left_out(filled, advice)
    if gone_frac == 0:
        return None
    most_ns = round(mean_ns * gone_frac)
    # Some saves wait for the disk to catch up, which fewer need not do, or not so many.
    usual_ns = round((run.usual_save_ns or each_ns) * saves / run.every.steps * surely_frac)
    saving = Range(low=around(min(usual_ns, most_ns))[0], high=around(most_ns, step_ns)[1])
    name = parts[0].name if parts else "ModelCheckpoint"
    evidence: dict[str, int | float] = {
        "checkpoint_ns": mean_ns,
        "checkpoint_frac": mean_ns / step_ns,
        "per_checkpoint_ns": each_ns,
        "checkpoints_count": saves,
        "step_ns": step_ns,
    }
    if content is not None:
        evidence["checkpoint_bytes"] = content.whole_bytes
        evidence["fixed_bytes"] = content.fixed_bytes
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"Checkpoints take {duration(mean_ns)} of each step on average "
        f"({percent(mean_ns / step_ns)}), {duration(each_ns)} each",
        advice=advice,
        evidence=evidence,
        saving_ns=saving,
        confidence=0.9,
        where=(Where(phase=Phase.CHECKPOINT.value, name=name),),
        change=change,
        when=When.ALSO_BETWEEN,
    )


def _less_often(run: RunResults, step_ns: int, mean_ns: int, saves: int) -> tuple[float, str, str]:
    """Return the share of the cost that goes with saving less often, the advice and the code."""
    assert run.every is not None
    assert run.steps is not None
    steps, epochs = run.every.steps, run.steps.epochs
    each_ns = mean_ns * steps / saves
    inside = run.per_step(Phase.CHECKPOINT)
    plain_ns = max(1, step_ns - (inside.mean_ns if inside else 0))
    every = seldom(steps, saves, each_ns / (TARGET_FRAC * plain_ns))
    finished = run.status == "finished"
    if finished and every > run.steps.ran:
        # A run of this length would never save: a fifth as often, or once, is still within it.
        every = min(seldom(steps, saves, 0.0), run.steps.ran)
    # Of the change proposed: as many are left as the new interval has, of a whole run one.
    most_frac = 1 - 1 / saves if finished else 1.0
    rest = "or by time, in the background where saving must be frequent, and weights alone where "
    rest += "no resume is needed."
    if epochs is None or saves > epochs:
        return (
            min(1 - steps / saves / every, most_frac),
            f"Save every {every:,} steps {rest}",
            f"ModelCheckpoint(..., every_n_train_steps={every})",
        )
    apart = max(FEWER, round(every * saves / steps))
    apart_epochs = apart * max(1, round(epochs / saves))
    # A run of so few epochs would end without any.
    last = ", save_last=True" if finished and apart_epochs > epochs else ""
    return (
        min(1 - 1 / apart, most_frac),
        f"Save every {apart_epochs:,} epochs {rest}",
        f"ModelCheckpoint(..., every_n_epochs={apart_epochs}{last})",
    )


def _kinds(content: CheckpointContent) -> list[tuple[int, str]]:
    return [
        (content.frozen_bytes, "frozen weights"),
        (content.buffer_bytes, "buffers"),
        (content.hparams_bytes or 0, "hyperparameters"),
    ]


def _named(content: CheckpointContent) -> tuple[str, tuple[tuple[str, int], ...]]:
    """Return the largest kind of what never changes, and what of it is named in the code."""
    whole_bytes, kind = max(_kinds(content))
    if kind == "frozen weights":
        # The code goes through all of them.
        return kind, ((content.largest_frozen or "", whole_bytes),)
    largest = content.largest_buffers if kind == "buffers" else content.largest_hparams
    named = tuple(one for one in largest if one[1] >= NAMED_FRAC * whole_bytes)
    return kind, named or largest[:1]


def _named_bytes(content: CheckpointContent) -> int:
    """Return what the code proposed leaves out."""
    _, named = _named(content)
    return sum(taken for _, taken in named)


def _left_out(content: CheckpointContent, otherwise: str) -> tuple[str, str]:
    """Return the advice and the code for leaving out what never changes."""
    kinds = _kinds(content)
    most_bytes, _ = max(kinds)
    kind, sizes = _named(content)
    names = [name for name, _ in sizes]
    many = " and ".join(kind for taken, kind in kinds if 2 * taken >= most_bytes)
    named = f", above all {names[0]}" if any(names) else ""
    what = f"{size(content.fixed_bytes)} of the {size(content.whole_bytes)} of each are {many}"
    apart = ""
    if kind == "hyperparameters":
        given = ", ".join(f"{name}=..." for name in names)
        if names:
            apart = f" What is ignored must be given: load_from_checkpoint(path, {given})."
        ignored = ", ".join(f'"{name}"' for name in names or ["..."])
        change = f"self.save_hyperparameters(ignore=[{ignored}])"
    elif kind == "frozen weights":
        change = (
            "def on_save_checkpoint(self, checkpoint):\n"
            "    for name, p in self.named_parameters():\n"
            "        if not p.requires_grad:\n"
            '            del checkpoint["state_dict"][name]  # load with strict_loading=False'
        )
    else:
        apart = " That is for buffers which training leaves as they are, such as tables and masks."
        change = "\n".join(
            f'self.register_buffer("{name.rpartition(".")[2]}", ..., persistent=False)'
            for name in names or ["..."]
        )
    advice = f"{what}{named}. Leave out what training never changes.{apart} Otherwise: {otherwise}"
    return advice, change
