"""Which trial measures a finding's change, and that the command line accepts each of them."""

import re
import shlex

import pytest
from document_samples import SAMPLES, everything_run
from rule_cases import WORK, made

from lightning_gpuprof.cli import _parser
from lightning_gpuprof.findings.model import Place, TrialCommand, When
from lightning_gpuprof.findings.trial_commands import (
    BATCHES,
    COUNTED,
    DEFERRED,
    LOG,
    LOGGERS,
    NO_CHANGE,
    NO_LINE,
    NO_TRAINING,
    SETTING,
    command_line,
    trial_command,
)
from lightning_gpuprof.records.schema import Loader
from lightning_gpuprof.report import console, markdown
from lightning_gpuprof.report.build_run import build_run
from lightning_gpuprof.report.load import load_report
from lightning_gpuprof.trials.change import changes
from lightning_gpuprof.trials.proposals import WatchedRun

WRITTEN = (
    (r"\bnum_workers=(\d+)", "num_workers"),
    (r"\bpersistent_workers=True()", "num_workers"),
    (r"\bprefetch_factor=(\d+)", "prefetch_factor"),
    (r"\bpin_memory=(True)", "pin_memory"),
    (r"\bbatch_size=(\d+)", "batch_size"),
    (r"\blog_every_n_steps=(\d+)", "log_every_n_steps"),
    (r"\bdetect_anomaly=(False)", "detect_anomaly"),
    (r"\bset_float32_matmul_precision\(['\"](\w+)", "matmul_precision"),
    (r"\bprecision=['\"](bf16-mixed)", "precision"),
    (r"\bset_num_threads\((\d+)\)", "torch_threads"),
    (r"\bset_flush_denormal\((True)\)", "flush_denormal"),
    (r"\b(fused|foreach)=True", "optimizer"),
    (r"\btorch\.compile\(model\)()", "compile"),
)
"""How the code of a change sets what `try` can set: a pattern that holds the value, and the name of
the change. Rules state the setting beside the code; here the two are compared."""


def written(change):
    """Return the setting that the code of a change names."""
    for pattern, name in WRITTEN:
        if (match := re.search(pattern, change or "")) is not None:
            return f"{name}={match[1]}" if match[1] else name
    return None


@pytest.mark.parametrize(
    ("change", "trial"),
    [
        ("DataLoader(..., num_workers=4, persistent_workers=True)", "num_workers=4"),
        ("DataLoader(..., persistent_workers=True)", "num_workers"),
        ("DataLoader(..., batch_size=64)", "batch_size=64"),
        ("Trainer(..., log_every_n_steps=50)", "log_every_n_steps=50"),
        ("Trainer(..., detect_anomaly=False)", "detect_anomaly=False"),
        ('torch.set_float32_matmul_precision("high")', "matmul_precision=high"),
        ("torch.set_num_threads(2)  # and num_workers", "torch_threads=2"),
        ("torch.set_flush_denormal(True)  # at the start", "flush_denormal=True"),
        ("Adam(..., fused=True)", "optimizer=fused"),
        ("model = torch.compile(model)", "compile"),
        ('Trainer(..., precision="32-true")', None),
        ('model = torch.compile(model, mode="reduce-overhead")', None),
    ],
)
def test_a_setting_that_the_change_names_is_tried_with_its_value(analyze, change, trial):
    finding = made("a", 0, 1, change=change, setting=written(change))
    assert trial_command(finding, analyze(WORK)).change == trial


@pytest.mark.parametrize("kind", ["run", "fault"])
def test_rules_state_the_setting_that_their_code_names(kind, tmp_path):
    count = 0
    for document in SAMPLES[kind](tmp_path).values():
        for card in document.findings:
            note = "" if card.trial is None else card.trial.note
            measured = card.saving is not None and card.saving.measured  # with the trial's code
            if measured or note in (NO_TRAINING, COUNTED):
                continue
            words = shlex.split(card.trial.command or "")
            setting = words[words.index("--change") + 1] if note == SETTING else None
            assert setting == written(card.change), card.id
            count += setting is not None
    assert count > 3


@pytest.mark.parametrize(
    ("place", "change", "trial", "note"),
    [
        (Place(phase="data_wait"), None, "cached_batches", BATCHES),
        (Place(phase="data_wait", file="d.py", line=3), None, "cached_batches", BATCHES),
        (Place(phase="logging", name="CSVLogger"), None, "without_loggers", LOGGERS),
        (Place(phase="forward", file="m.py", line=3), "x = f(x)", None, NO_LINE),
        (Place(phase="other", name="on_before_zero_grad"), None, None, NO_CHANGE),
        (Place(phase="validation"), "DataLoader(..., num_workers=2)", None, COUNTED),
    ],
)
def test_otherwise_the_phase_decides(analyze, place, change, trial, note):
    run = analyze(WORK, loader=Loader(num_workers=0))
    finding = made("a", 0, 1, places=(place,), change=change)
    assert trial_command(finding, run) == TrialCommand(trial, note)


def test_calls_of_self_log_are_tried_without_them(analyze):
    place = Place(phase="logging")
    finding = made("a", 0, 1, places=(place,), change="if a:\n    self.log(...)", setting=DEFERRED)
    assert trial_command(finding, analyze(WORK)) == TrialCommand("deferred_logging", LOG)


def test_a_callback_is_left_out_by_its_class(analyze):
    place = Place(phase="callbacks", name="Plots")
    trial = trial_command(made("slow-callback", 0, 1, places=(place,)), analyze(WORK))
    assert trial.change == "without_callback=Plots"
    assert "without Plots" in trial.note


def test_what_happens_between_steps_was_counted(analyze):
    finding = made("slow-epoch-end", 0, 1, when=When.BETWEEN, places=(Place(phase="callbacks"),))
    assert trial_command(finding, analyze(WORK)).note == COUNTED


def test_what_trains_nothing_or_loads_with_nothing_is_not_tried(analyze):
    wait = made("data-wait", 0, 1, places=(Place(phase="data_wait"),))
    assert trial_command(wait, analyze(WORK, stage="predict")).note == NO_TRAINING
    assert trial_command(wait, analyze(WORK, loader=None)).note == NO_CHANGE


def test_each_named_change_exists():
    names = {name for _, name in WRITTEN}
    names |= {"cached_batches", DEFERRED, "without_loggers", "without_callback"}
    assert names <= set(changes())


@pytest.mark.parametrize("kind", ["run", "fault"])
def test_the_command_line_accepts_each_command(kind, tmp_path, analyze):
    watched, count = WatchedRun(analyze(WORK)), 0
    for document in SAMPLES[kind](tmp_path).values():
        for card in document.findings:
            assert card.trial is not None
            assert card.trial.note
            if card.trial.command is None:
                continue
            words = shlex.split(card.trial.command)[1:]
            args = _parser(words).parse_args(words)
            candidates, without = watched.propose(args.change)
            assert len(candidates) + len(without) > 0
            assert args.into == document.subject.path
            count += 1
    assert count > 3


def test_every_surface_has_the_command_in_one_line(tmp_path):
    everything = tmp_path / "everything-in-a-folder-with-a-rather-long-name"
    everything_run(everything)
    document = build_run(load_report(str(everything)))
    trials = [card.trial for card in document.findings if card.trial.command is not None]
    assert trials
    for trial in trials:
        assert f"\n    {trial.command}\n" in console.render(document, verbose=True, width=60)
        assert trial.command not in console.render(document, width=60)
        assert f"measure: `{trial.command}`" in markdown.render(document, verbose=True)


def test_a_module_is_tried_as_a_module():
    words = shlex.split(
        command_line(TrialCommand("compile", ""), run_dir="a run", program=("-m", "net.train"))
    )
    args = _parser(words[1:]).parse_args(words[1:])
    assert (args.into, args.script, args.arguments) == ("a run", "python", ["-m", "net.train"])
