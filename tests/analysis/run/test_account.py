"""Every nanosecond of a run is work on batches or a share with a name."""

from types import SimpleNamespace

import pytest
from rule_cases import EPOCH_FLAGS, MS, WORK, every

from lightning_gpuprof.analysis.run.account import Kind, Rhythm, run_account
from lightning_gpuprof.analysis.run.compiling import Compiling, Repeated
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import OutsideSpan, StepFlag


def span(where, start_ns=0, /, **parts_ns):
    """Return a span outside of steps, of parts `<phase>__<name>` and the rest, `<phase>__`."""
    phase_ns, part_ns = {}, {}
    for key, ns in parts_ns.items():
        phase, _, name = key.partition("__")
        phase_ns[phase] = phase_ns.get(phase, 0) + ns
        if name:
            part_ns[f"{phase}/{name}"] = ns
    return OutsideSpan(where, start_ns, sum(parts_ns.values()), phase_ns, part_ns)


REMADE = [span("epoch_end", data_wait__train_dataloader=20 * MS, other__=MS) for _ in range(9)]


def whole_ns(account):
    shares_ns = sum(share.total_ns for share in account.shares)
    return account.work_ns + account.measuring_ns + shares_ns + account.unrecorded_ns


def shares_of(account):
    return {(share.name, share.kind, share.rhythm): share for share in account.shares}


def test_the_account_adds_up_to_the_wall_time(analyze):
    run = analyze(
        {**WORK, "data_wait": every(10, 30 * MS, MS), "callbacks": 3 * MS, "other": MS},
        parts={"callbacks/Plots": 2 * MS, "callbacks/GpuProfCallback": MS // 2},
        flags=EPOCH_FLAGS,
        records=[
            span("setup", other__setup=300 * MS, callbacks__Plots=10 * MS, validation__=7 * MS),
            *REMADE,
            span("teardown", checkpoint__ModelCheckpoint=5 * MS),
        ],
        wall_ns=3_000 * MS,
    )
    account = run.account
    assert whole_ns(account) == account.wall_ns == 3_000 * MS
    assert account.work_ns == 100 * 10 * MS
    assert account.measuring_ns == 50 * MS
    assert account.unrecorded_ns == 3_000 * MS - run.wall.accounted_ns


def test_a_share_has_its_name_its_kind_and_how_often_and_how_long_it_was(analyze):
    shares = shares_of(analyze(WORK, flags=EPOCH_FLAGS, records=REMADE).account)
    remade = shares["train_dataloader", Kind.LOADER_HOOK, Rhythm.EPOCH]
    assert (remade.count, remade.total_ns, remade.each_ns) == (9, 180 * MS, 20 * MS)
    rest = shares[None, Kind.LOOP, Rhythm.EPOCH]
    assert (rest.count, rest.each_ns) == (9, MS)


def test_the_end_of_an_epoch_and_the_start_of_the_next_count_once_together(analyze):
    spans = [span(where, callbacks__Plots=10 * MS) for where in ("epoch_end", "epoch_start") * 3]
    (plots,) = analyze(WORK, records=spans).account.shares
    assert (plots.kind, plots.rhythm) == (Kind.CALLBACK, Rhythm.EPOCH)
    assert (plots.count, plots.each_ns) == (3, 20 * MS)


def test_what_was_done_at_one_time_is_not_expected_again(analyze):
    first_call = {"logging": every(100, 900 * MS, MS)}
    records = [span("epoch_end", other__on_train_epoch_end=ms * MS) for ms in (500, 20, 20)]
    account = analyze({**WORK, **first_call}, parts={"logging/CSVLogger": first_call["logging"]},
                      records=records).account  # fmt: skip
    assert {share.rhythm for share in account.shares} == {Rhythm.ONCE}
    assert account.recurring == ()
    assert account.once_ns == (900 + 99 + 540) * MS


def test_the_wait_for_an_epochs_first_batch_is_apart_from_the_others(analyze):
    wait = {"data_wait": every(10, 50 * MS, MS)}
    shares = shares_of(analyze({**WORK, **wait}, flags=EPOCH_FLAGS).account)
    key = None, Kind.DATA_WAIT
    assert shares[(*key, Rhythm.STEP)].total_ns == 100 * MS
    assert shares[(*key, Rhythm.EPOCH)].total_ns == 9 * 49 * MS
    assert shares[(*key, Rhythm.ONCE)].total_ns == 49 * MS


def test_validation_and_the_hook_that_makes_its_loader_are_counted_by_validations(analyze):
    shares = shares_of(
        analyze(
            {**WORK, "validation": every(20, 30 * MS)},
            parts={"validation/val_dataloader": every(20, 20 * MS),
                   "validation/first batch": every(20, 4 * MS)},
            flags=every(20, StepFlag.VALIDATION),
        ).account
    )  # fmt: skip
    loader = shares["val_dataloader", Kind.LOADER_HOOK, Rhythm.VALIDATION]
    assert (loader.count, loader.each_ns) == (5, 20 * MS)
    validation = shares[None, Kind.VALIDATION, Rhythm.VALIDATION]
    assert (validation.count, validation.each_ns) == (5, 10 * MS)


@pytest.mark.parametrize(
    ("profiler", "kind"), [("SimpleProfiler", Kind.PROFILER), (None, Kind.CALLBACK)]
)
def test_the_users_profiler_is_told_from_callbacks(analyze, profiler, kind):
    run = analyze(
        {**WORK, "callbacks": MS},
        parts={"callbacks/SimpleProfiler": MS},
        trainer={"profiler": profiler},
    )
    (share,) = run.account.shares
    assert (share.name, share.kind, share.count) == ("SimpleProfiler", kind, 100)


def test_without_recorded_time_there_is_no_account(analyze):
    assert analyze({}, steps=0).account is None


def test_compiling_is_no_work_on_batches_and_comes_once_or_again(analyze):
    def compiled(again_ns):
        compiling = Compiling(Repeated(3, 2, again_ns), 100, whole_ns=300 * MS)
        run = analyze(WORK)
        session = SimpleNamespace(steps=100, start=run.start, all=lambda kind: [])
        phases = {phase: run.phases[phase] for phase in (Phase.FORWARD, Phase.BACKWARD)}
        return run_account(session, run.wall, phases, (), {}, compiling)

    account = compiled(120 * MS)
    assert whole_ns(account) == account.wall_ns
    assert [(share.kind, share.rhythm, share.total_ns) for share in account.shares] == [
        (Kind.COMPILING, Rhythm.ONCE, 180 * MS),
        (Kind.COMPILING, Rhythm.STEP, 120 * MS),
    ]
    assert account.work_ns == 700 * MS
    assert [share.total_ns for share in compiled(None).shares] == [300 * MS]
