"""No saving exceeds its cause: the interval, its likely middle, and what is called indirect."""

import numpy as np
import pytest
from rule_cases import EPOCH_FLAGS, EPOCHS, MS

from lightning_gpuprof.findings.engine import MOST_FRAC, evaluate_rules, step_of
from lightning_gpuprof.records.facts import CoreWait
from lightning_gpuprof.records.schema import Device, Loader, OutsideSpan

UNSTEADY = [(120 if step // 16 % 2 else 80) * MS // 10 for step in range(192)]


def finding_of(run, finding_id):
    return next(finding for finding in evaluate_rules(run).findings if finding.id == finding_id)


def test_how_far_the_mean_of_a_cause_may_be_off_is_left_to_its_saving(analyze):
    random = np.random.default_rng(1)
    takes = (4 * MS * (1 + 0.3 * random.standard_normal(192))).astype(np.int64)
    phases = {"forward": UNSTEADY, "callbacks": takes}
    run = analyze(phases, parts={"callbacks/A": takes}, steps=192)
    finding = finding_of(run, "slow-callback")
    (per_step,) = (part.per_step for part in run.parts if part.name == "A")
    # 1.8 standard errors of twelve means, each of 16 values that scatter by three tenths.
    assert per_step.error_frac == pytest.approx(1.8 * 0.3 / np.sqrt(192), rel=0.5)
    assert finding.saving_ns.high == round(per_step.mean_ns * (1 + per_step.error_frac))


@pytest.mark.parametrize(
    ("queued_frac", "device", "kept_frac"),
    [(0.05, None, 1.0), (0.25, None, 0.75), (0.25, Device(type="cuda"), 1.0)],
)
def test_a_busy_machine_widens_what_is_promised(analyze, queued_frac, device, kept_frac):
    def low_ns(*records):
        phases = {"forward": 8 * MS, "callbacks": 2 * MS}
        columns = {"device_dur": 10 * MS, "device/callbacks": 2 * MS, "run_ahead/callbacks": 0}
        options = {"parts": {"callbacks/A": 2 * MS}, "device": device, "columns": columns}
        return finding_of(analyze(phases, records=records, **options), "slow-callback").saving_ns

    quiet, busy = low_ns(), low_ns(CoreWait(100 * MS, round(queued_frac * 100 * MS)))
    assert busy.low == pytest.approx(kept_frac * quiet.low, abs=1)
    assert busy.high == quiet.high


def test_a_step_keeps_a_twentieth_of_its_time(analyze):
    run = analyze({"forward": MS, "callbacks": 99 * MS}, parts={"callbacks/A": 99 * MS})
    assert finding_of(run, "slow-callback").saving_ns.high == round(MOST_FRAC * 100 * MS)


def test_what_is_between_epochs_is_a_share_of_the_run_and_never_more_than_all_of_it(analyze):
    began = OutsideSpan("epoch_end", 0, 9_000 * MS, phase_ns={"data_wait": 9_000 * MS})
    run = analyze(
        EPOCHS,
        flags=EPOCH_FLAGS,
        loader=Loader(num_workers=1),
        records=[began],
        wall_ns=12_000 * MS,
    )
    finding = finding_of(run, "worker-startup")
    # 9 s between epochs and 0.9 s in their first steps, of a run of 12 s.
    assert finding.title.endswith("(82% of the run)")
    assert finding.saving_ns.high > run.step_ns  # more than a step takes, in all of which it is not
    assert step_of(finding, run) == run.step_ns + 90 * MS
    assert finding.saving_ns.middle < step_of(finding, run)
