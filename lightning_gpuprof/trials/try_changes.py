"""`try`: measures what changes of settings gain, in short runs of the program itself."""

import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from typing import Any

from msgspec.structs import replace

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.errors import ConfigError, RecordError
from lightning_gpuprof.records.trials import Trials, write_trials
from lightning_gpuprof.report.load import load_report
from lightning_gpuprof.report.local_pairs import append_pairs, pairs_file
from lightning_gpuprof.trials.measured_pairs import measured_pairs
from lightning_gpuprof.trials.processes import Children, Variant
from lightning_gpuprof.trials.proposals import Candidate, WatchedRun
from lightning_gpuprof.trials.trial_series import TrialSeries

GRACE_S = 30.0
"""A child that is training when the time is over may finish its block within this time."""
_WARM_NS, _BLOCK_NS, _EPOCH_NS = 10e9, 0.4e9, 2e9
_MAX_SHARED_FRAC = 0.4
"""If the program uses at most this share of the GPU's memory, two variants of it share the
memory."""


def try_changes(
    make_trainer: Callable[[], Any],
    make_model: Callable[[], Any],
    make_data: Callable[[], Any],
    **options: Any,
) -> Trials:
    """Measure what changes of settings gain for a training that three functions describe.

    Child processes import the functions, which must be at the top level of a file.

    Args:
        make_trainer: Returns the Trainer.
        make_model: Returns the LightningModule.
        make_data: Returns the training loader or a DataModule.
        **options: As for `try_program`.

    Returns:
        The trials, and the settings to keep.

    Raises:
        ConfigError: The training fails, or the options do not suit it.
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
    on_progress: Callable[[str], object] = lambda text: None,
) -> Trials:
    """Measure what changes of settings gain for a program.

    Args:
        program: A script with its arguments, or `-m` and a module.
        changes: Names of changes, each with a value or with None for all values that suit. By
            default the findings of the run `into`, or of a first run, propose changes.
        finding: Try only changes that answer the finding with this id.
        seconds: The time for everything.
        into: Log dir of a run of the program. Its report will show the result.
        on_progress: Receives a line of text about what is being tried.

    Returns:
        The trials, and the settings to keep.

    Raises:
        ConfigError: The program fails or does not train, or a change or finding does not exist.
    """
    until, name = time.monotonic() + seconds, " ".join(program)
    with Children(program, until + GRACE_S) as children:
        on_progress("watching the program as it is" if into is None else f"reading {into}")
        try:
            report = load_report(into or children.watch(), analyse=True, measured=False)
        except RecordError as error:
            raise ConfigError(
                f"{name} trained no steps by which changes could be chosen: {error}"
            ) from error
        results = report.results
        if not results.step_ns:
            raise ConfigError(f"{name} trained too few steps to choose changes by.")
        watched = WatchedRun(results, report.findings)
        candidates, without_trial = watched.propose(changes, finding)
        warm, steps = lengths(results, results.step_ns)
        fills_memory = (
            results.memory.use is not None
            and (results.memory.use.peak_frac or 0.0) > _MAX_SHARED_FRAC
        )

        def make_variant(chosen: Sequence[Candidate]) -> Variant:
            settings = watched.settings(chosen)
            larger_batches = "batch_size" in settings.data_loader
            alone = results.on_gpu and (fills_memory or larger_batches)
            return Variant(children, settings, warm=warm, steps=steps, alone=alone)

        series = TrialSeries(watched, candidates, make_variant, until, on_progress)
        trials = series.run(name, without_trial)
    trials = _with_pairs_appended(trials, results)
    if into is not None:
        write_trials(report.run, trials)
    return trials


def _with_pairs_appended(trials: Trials, results: RunResults) -> Trials:
    """Append what trials measured to the user's file of pairs, if there is one, and note that."""
    if (path := pairs_file()) is None:
        return trials
    pairs = list(measured_pairs(results, trials.trials, f"{datetime.now(timezone.utc):%Y-%m-%d}"))
    if not pairs:
        return trials
    note = f"Lines appended to {path}: {len(pairs)}."
    try:
        append_pairs(path, pairs)
    except OSError as error:
        note = f"What was measured is not in {path}: {error.strerror or error}."
    return replace(trials, notes=(*trials.notes, note))


def lengths(results: RunResults, step_ns: int) -> tuple[int, int]:
    """Return the steps of warm-up and of a block; blocks are whole epochs where these are short."""
    warm = min(20, max(4, round(_WARM_NS / step_ns)))
    steps = min(400, max(4, round(_BLOCK_NS / step_ns)))
    epoch = results.start.loader.length if results.start.loader else None
    if epoch and epoch * step_ns <= _EPOCH_NS:
        steps = -(-steps // epoch) * epoch
    return warm, steps


def _spec(function: Callable[[], Any]) -> str:
    """Return how a child can import a function: `file.py:name` or `package.module:name`."""
    name, module = function.__qualname__, function.__module__
    file = getattr(sys.modules.get(module), "__file__", None)
    if not name.isidentifier() or file is None:
        raise ConfigError(
            f"A child process cannot import {name}. Pass functions at the top level of a file."
        )
    return f"{module if '.' in module else file}:{name}"
