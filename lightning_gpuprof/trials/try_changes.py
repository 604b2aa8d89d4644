"""`try`: what changes of settings gain, measured in short runs of the program itself."""

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.errors import ConfigError, RecordError
from lightning_gpuprof.records.trials import Trials, write_trials
from lightning_gpuprof.trials.processes import Family, Program
from lightning_gpuprof.trials.proposals import Context, Pick
from lightning_gpuprof.trials.trying import Trying
from lightning_gpuprof.views.documents.report import load_report

GRACE_S = 30.0
_WARM_NS, _BLOCK_NS, _EPOCH_NS = 10e9, 0.4e9, 2e9
_MOST_SHARED = 0.4
"""Up to this share of the GPU's memory two processes have theirs side by side."""


def try_changes(
    make_trainer: Callable[[], Any],
    make_model: Callable[[], Any],
    make_data: Callable[[], Any],
    **options: Any,
) -> Trials:
    """Measure what changes of a training gain, in processes that import the functions anew.

    Args:
        make_trainer: Returns the Trainer.
        make_model: Returns the LightningModule.
        make_data: Returns the training loader or a DataModule.
        **options: As for `try_program`.

    Returns:
        The trials, and the settings to keep.

    Raises:
        ConfigError: The training fails, or the options fit nothing.
    """
    functions = make_trainer, make_model, make_data
    return try_program(["--functions", *map(_spec, functions)], **options)


def try_program(
    program: Sequence[str],
    *,
    changes: Sequence[tuple[str, Any]] = (),
    finding: str | None = None,
    seconds: float = 600.0,
    into: str | None = None,
    say: Callable[[str], object] = lambda text: None,
) -> Trials:
    """Do so for a program.

    Args:
        program: A script with its arguments, or `-m` and a module.
        changes: Names of changes, each with a value or None for all that suit; by default those
            that the findings of `into`, or of a first run, suggest.
        finding: Only changes that answer this finding.
        seconds: The time for all of it.
        into: Log dir of a run of the program, whose report the result joins.
        say: Is told what is being tried.
    """
    until, name = time.monotonic() + seconds, " ".join(program)
    with Family(program, until + GRACE_S) as family:
        say("watching the program as it is" if into is None else f"reading {into}")
        try:
            report = load_report(into or family.watch(), analyse=True, measured=False)
        except RecordError as error:
            raise ConfigError(f"{name} trained no steps to choose by: {error}") from error
        run = report.results
        if not run.step_ns:
            raise ConfigError(f"{name} trained too few steps to choose by.")
        context = Context(run, report.findings)
        picks, others = context.propose(changes, finding)
        warm, steps = lengths(run, run.step_ns)
        full = run.memory.use is not None and (run.memory.use.peak_frac or 0.0) > _MOST_SHARED

        def form(chosen: Sequence[Pick]) -> Program:
            settings = context.settings(chosen)
            alone = run.on_gpu and (full or "batch_size" in settings.get("DataLoader", {}))
            return Program(family, settings, warm=warm, steps=steps, alone=alone)

        trials = Trying(context, picks, form, until, say).run(name, others)
    if into is not None:
        write_trials(report.run, trials)
    return trials


def lengths(run: RunResults, step_ns: int) -> tuple[int, int]:
    """Return the steps to warm up and those of a block: whole epochs, where these are short."""
    warm = min(20, max(4, round(_WARM_NS / step_ns)))
    steps = min(400, max(4, round(_BLOCK_NS / step_ns)))
    epoch = run.start.loader.length if run.start.loader else None
    if epoch and epoch * step_ns <= _EPOCH_NS:
        steps = -(-steps // epoch) * epoch
    return warm, steps


def _spec(function: Callable[[], Any]) -> str:
    """Return where a child finds a function."""
    name, module = function.__qualname__, function.__module__
    file = getattr(sys.modules.get(module), "__file__", None)
    if not name.isidentifier() or file is None:
        raise ConfigError(f"No other process finds {name}. Pass functions of a file's top level.")
    return f"{module if '.' in module else file}:{name}"
