"""`lightning-gpuprof inspect`: the lines of a training loop that wait or do needless work."""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from lightning_gpuprof.cli.arguments import add_program, positive, program_of
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.inspect.advice import advice
from lightning_gpuprof.paths import short_path
from lightning_gpuprof.records.inspection import Inspection
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.writer import RecordWriter
from lightning_gpuprof.report.clean import cleaned
from lightning_gpuprof.runtime.launch import run_child
from lightning_gpuprof.units import times

STEPS = 3
CHILD = "lightning_gpuprof.inspect.child"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "--steps",
        type=positive,
        default=STEPS,
        metavar="N",
        help="training steps to watch for host syncs, and as many to look for needless work, after "
        f"a first step (default: {STEPS})",
    )
    add_program(
        parser,
        "; it runs on one device, without validation, until its steps are inspected. Exit status: "
        "0 nothing to report, 1 lines to change, 2 the script failed",
        into=", to whose report the result is added",
    )


def run(args: argparse.Namespace) -> int:
    """Print the result; return 1 if a line waits or does needless work, else 0."""
    program = program_of(args)
    if args.into is not None:
        _check_run(args.into)
    inspection = cleaned(_inspect(program, args.steps))
    if args.into is not None:
        writer = RecordWriter(args.into, rank=0)
        for record in inspection.records():
            writer.write(record)
        writer.flush()
    sites = [
        msgspec.to_builtins(site)
        | {"per_step": site.count / site.steps_watched, "replacement": advice(site)}
        for site in inspection.sites
    ]
    document = {"schema_version": 2, **msgspec.to_builtins(inspection), "sites": sites}
    print(json.dumps(document, indent=2) if args.json else text(inspection))
    return 1 if inspection.sites or inspection.waste else 0


def text(inspection: Inspection) -> str:
    """Return the result as text."""
    return "\n".join([*_syncs(inspection), *_waste(inspection), *_calls(inspection)])


def _check_run(run: str) -> None:
    """Refuse a run whose last session is not its training."""
    ranks = read_run(run)
    session = ranks[0].sessions[-1] if 0 in ranks and ranks[0].sessions else None
    if session is None or session.start.stage != "fit":
        raise ConfigError(
            f"--into {run}: this run did not end with a fit. Pass the log dir of a run that did, "
            "such as lightning_logs/version_0, or leave --into out."
        )


def _syncs(inspection: Inspection) -> Iterator[str]:
    steps = _count(inspection.sync_steps, "step")
    if inspection.syncs_raise:
        yield (
            "Host syncs were not looked for: the script has set "
            'torch.cuda.set_sync_debug_mode("error"), and each of them raises.'
        )
    elif not inspection.sites:
        yield f"No line of the training loop makes the host wait for the device ({steps})."
    else:
        verb = "makes" if len(inspection.sites) == 1 else "make"
        make = "would make" if inspection.sites[0].would_sync else verb
        lines = _count(len(inspection.sites), "line")
        yield f"{lines} of the training loop {make} the host wait for a GPU ({steps})"
    for site in inspection.sites:
        count = f"{site.count / site.steps_watched:g} per step"
        blocked = ""
        if site.blocked_ns is not None:
            blocked = f", {site.blocked_ns / site.steps_watched / 1000:.0f} µs blocked per step"
        place = f"{short_path(site.file)}:{site.line}"
        yield f"\n{place}  {site.operation}  by {site.owner}  {count}{blocked}"
        yield f"    {site.source}"
        yield f"    -> {advice(site)}"


def _waste(inspection: Inspection) -> Iterator[str]:
    if inspection.waste:
        yield f"\nNeedless work ({_count(inspection.work_steps, 'step')})"
    for waste in inspection.waste:
        place = (
            "" if waste.place is None else f"{short_path(waste.place.file)}:{waste.place.line}  "
        )
        yield f"\n{place}{waste.title}"
        if waste.place is not None:
            yield f"    {waste.place.source}"
        yield f"    -> {waste.advice}"


def _calls(inspection: Inspection) -> Iterator[str]:
    if inspection.calls_per_step is None:
        return
    yield f"\nA step makes {inspection.calls_per_step:,.0f} Python calls. By function of your own:"
    for row in inspection.calls:
        place = f"{short_path(row.file)}:{row.line}"
        yield f"{row.makes:10,.0f} calls  {place}  {row.function}, called {times(row.calls)}"
    if any(row.to_workers for row in inspection.calls):
        # Imported here: few programs have such calls, and the import takes time.
        from lightning_gpuprof.findings.operators import workers_advice

        yield f"    -> {workers_advice()}"


def _inspect(program: Sequence[str], steps: int) -> Inspection:
    script = " ".join(program[:2] if program[0] == "-m" else program[:1])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "inspection.json")
        status = run_child([sys.executable, "-m", CHILD, str(file), str(steps), *program])
        inspection = (
            msgspec.json.decode(file.read_bytes(), type=Inspection) if file.exists() else None
        )
    if status:
        raise ConfigError(
            f"{script} failed with status {status} before its steps were inspected; its messages "
            "are above. Run it by itself until it trains."
        )
    if inspection is not None and not inspection.trainers:
        raise ConfigError(
            f"{script} made no Trainer, so nothing was inspected: only loops of Lightning's "
            "Trainer can be. Put a loop of your own into a LightningModule's training_step."
        )
    if inspection is None or not (inspection.sync_steps or inspection.syncs_raise):
        raise ConfigError(
            f"{script} ended without training two steps, so nothing was inspected. It must call "
            "Trainer.fit when run as a script; pass its arguments after its path."
        )
    return inspection


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
