"""Builds the document of a run: which sections it has, and in which order."""

import os
import shlex
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import msgspec

from lightning_gpuprof.findings.questions import Answer, answer_questions
from lightning_gpuprof.report.build_trial import trial_sections
from lightning_gpuprof.report.document import (
    SCHEMA_VERSION,
    Chart,
    Document,
    Section,
    Subject,
    Text,
)
from lightning_gpuprof.report.load import Report
from lightning_gpuprof.report.run.account import account_section
from lightning_gpuprof.report.run.answer import (
    first_finding,
    headline_section,
    session_line,
    verdict,
)
from lightning_gpuprof.report.run.changes import (
    checklist_section,
    findings_section,
    not_worth_it_section,
    plan_section,
    rules_section,
)
from lightning_gpuprof.report.run.failure import failure_section
from lightning_gpuprof.report.run.limit import gpu_section
from lightning_gpuprof.report.run.places import (
    compile_section,
    lines_section,
    modules_section,
    outside_lines_section,
    sync_sites_section,
    workers_section,
)
from lightning_gpuprof.report.run.ranks import ranks_section
from lightning_gpuprof.report.run.rest import memory_section, rest_section
from lightning_gpuprof.report.run.session import facts_section, process_section
from lightning_gpuprof.report.run.slow_downs import (
    before_during_section,
    captures_section,
    slow_downs_section,
)
from lightning_gpuprof.report.run.steps import (
    outside_section,
    phases_section,
    recorded_steps_section,
    slowest_section,
    step_time_section,
    totals_section,
)
from lightning_gpuprof.report.run.traced import (
    operator_rates_section,
    trace_files_section,
    traced_sections,
)

SUBJECT_FACTS = (
    "session", "stage", "timer", "rank", "world_size", "host", "cpu_count", "host_cpu_count",
    "torch_settings", "versions", "trainer", "model", "device", "loader", "config",
)  # fmt: skip
"""Fields of the session's first record that a document keeps as they were recorded."""


def build_run(report: Report) -> Document:
    """Return the document of a run."""
    run = report.results
    name = os.path.basename(os.path.normpath(os.path.abspath(report.name)))
    subject = Subject(
        kind="run",
        name=name,
        line=session_line(run),
        path=report.run,
        status=run.status,
        facts=_subject_facts(report),
    )
    sections = tuple(section for section in _sections(report) if section is not None)
    return Document(SCHEMA_VERSION, subject, sections)


def _subject_facts(report: Report) -> dict[str, Any]:
    start = report.results.start
    fields: dict[str, Any] = msgspec.to_builtins(
        {key: getattr(start, key) for key in SUBJECT_FACTS}, enc_hook=str
    )
    end = report.results.end
    return {**fields, "error": None if end is None else end.error}


def _sections(report: Report) -> Iterator[Section | None]:
    run, findings = report.results, report.findings
    answers = answer_questions(run, findings, report.abstained)
    if report.notices:
        yield Section("notices", "", "first", (Text(report.notices, "note"),))
    failure = failure_section(report)
    yield failure
    yield headline_section(run, answers)
    answer = verdict(run, findings, answers)
    if failure is None or answer.kind != "not_measured":
        yield Section("verdict", "", "first", (answer,))
    yield phases_section(run)
    if run.steps is not None or findings:
        yield findings_section(run, findings, run_dir=report.run)
    yield not_worth_it_section(run, findings)
    yield plan_section(run, findings)
    yield from _trials(report)
    yield slow_downs_section(run)
    yield captures_section(run)
    yield lines_section(run)
    yield outside_lines_section(run)
    yield account_section(run)
    yield step_time_section(run)
    yield workers_section(run)
    yield modules_section(run)
    yield from traced_sections(run)
    yield operator_rates_section(run)
    yield sync_sites_section(run)
    yield compile_section(run)
    yield ranks_section(run, findings)
    yield from _verbose_sections(report, answers)
    yield rest_section(run)
    yield _commands(report)


def _trials(report: Report) -> Iterator[Section]:
    if report.trials is not None:
        yield from trial_sections(report.trials)


def _verbose_sections(report: Report, answers: tuple[Answer, ...]) -> Iterator[Section | None]:
    """Yield most of the sections that only a verbose report shows."""
    run = report.results
    yield facts_section(run)
    yield before_during_section(report.before_during, report.run)
    yield slowest_section(run)
    yield recorded_steps_section(run)
    yield totals_section(run)
    yield outside_section(run)
    yield gpu_section(run)
    yield memory_section(run)
    yield trace_files_section(run)
    yield checklist_section(run, answers)
    yield rules_section(run, report.abstained, report.silent)
    yield process_section(run)
    if run.traces:
        charts = (Chart("timeline", "Timeline"), Chart("roofline", "Roofline"))
        yield Section("charts", "Charts", "verbose", charts)


def _commands(report: Report) -> Section:
    """Return the commands that show all of this run, compare it with the next, and open it."""
    folder, name = os.path.split(report.run.rstrip("/"))
    if name in ("", ".", ".."):
        folder, name = os.path.split(os.path.abspath(report.run))
    run = shlex.quote(report.name)
    lines = [f"lightning-gpuprof report {run} --verbose"]
    if first_finding(report.results, report.findings) is not None:
        lines.append(f"lightning-gpuprof compare {run} NEW_RUN")
    lines.append(f"tensorboard --logdir {shlex.quote(folder or '.')}")
    lines.append(f"http://localhost:6006/#gpuprof&p.gpuprof.run={quote(name)}")
    return Section("commands", "Next", "page", (Text(tuple(lines), "command"),))
