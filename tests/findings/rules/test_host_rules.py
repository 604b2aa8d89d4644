"""Rules about what the training process does: loading, logging, saving, updating, compiling."""

from typing import ClassVar

import pytest

from lightning_gpuprof.analysis.run.host_lines import NOTE, HostLines, LineCount
from lightning_gpuprof.findings.model import Abstained, Severity, When, Where
from lightning_gpuprof.findings.rules.slow_logging import LOGGED
from lightning_gpuprof.records.notes import CHECKPOINT_NOTE, SYNCED_NOTE, CheckpointContent
from lightning_gpuprof.records.schema import (
    SYNC_STEPS_NOTE,
    UNMARKED_STEPS,
    Device,
    Loader,
    Note,
    OutsideSpan,
    StepFlag,
    SyncSite,
)

US, MS = 1_000, 1_000_000
WORK = {"forward": 6 * MS, "backward": 4 * MS}


def op(name, count, total_ns, self_ns=None):
    self_ns = total_ns if self_ns is None else self_ns
    return {"name": name, "count": count, "total_ns": total_ns, "self_ns": self_ns}


def span(finding):
    return finding.saving_ns.low, finding.saving_ns.high


def collecting(*steps):
    """Return the phases of steps of 10 ms, some of which collect garbage for 45 ms."""
    taken = [45 * MS if step in steps else 0 for step in range(100)]
    return {"forward": 10 * MS, "garbage_collection": taken}


IN_BACKWARD = {"garbage_collection/backward": collecting(3, 11, 80)["garbage_collection"]}


def every(steps, value, usual=0, *, first=0, count=100):
    return [value if step % steps == first else usual for step in range(count)]


class TestSlowHostToDeviceCopy:
    def test_names_the_hook_that_takes_the_time(self, judge):
        finding = judge(
            "slow-host-to-device-copy",
            {**WORK, "host_to_device": 10 * MS},
            parts={"host_to_device/on_before_batch_transfer": 9 * MS},
        )
        assert finding.severity is Severity.CRITICAL
        assert finding.where[0].name == "on_before_batch_transfer"
        assert "on_before_batch_transfer" in finding.advice
        assert finding.title.startswith(
            "on_before_batch_transfer, the module's own work on each batch, takes 10.0 ms"
        )
        # A tenth of the work may stay; what goes with it differs by up to a fifth.
        assert span(finding) == (7_200 * US, 12 * MS)

    def test_proposes_pinned_memory_on_a_gpu_that_copies_from_pageable_memory(self, judge):
        copies = [{"kind": "HtoD", "memory": "pageable", "count": 4, "bytes": 2_000, "total_ns": 1}]
        finding = judge(
            "slow-host-to-device-copy",
            {**WORK, "host_to_device": 2 * MS},
            device=Device(type="cuda"),
            columns={
                "device_dur": 12 * MS,
                "device/host_to_device": MS,
                "run_ahead/host_to_device": 1,
            },
            trace={"copies": copies},
        )
        assert finding.change == "DataLoader(..., pin_memory=True)"
        assert finding.title.startswith("Handing the batch to the device takes 2.00 ms")
        assert finding.evidence["copied_per_step_bytes"] == 1_000
        # The device stood idle for half of it.
        assert finding.saving_ns.high == 1_100_000

    def test_proposes_no_pinned_memory_where_the_trace_has_every_copy_from_it(self, judge):
        copies = [{"kind": "HtoD", "memory": "pinned", "count": 4, "bytes": 2_000, "total_ns": 1}]
        finding = judge(
            "slow-host-to-device-copy",
            {**WORK, "host_to_device": 2 * MS},
            device=Device(type="cuda"),
            trace={"copies": copies},
        )
        assert finding.change is None
        assert "Send less" in finding.advice

    def test_is_silent_where_nothing_is_handed_over(self, judge):
        assert judge("slow-host-to-device-copy", WORK) is None


EPOCHS = {**WORK, "data_wait": every(10, 100 * MS, 100 * US)}
EPOCH_FLAGS = every(10, StepFlag.EPOCH_START)
REMADE = OutsideSpan(
    where="epoch_end",
    start_ns=0,
    dur_ns=180 * MS,
    phase_ns={"data_wait": 180 * MS},
    part_ns={"data_wait/train_dataloader": 180 * MS},
)
"""All nine epochs' ends together."""


def unmarked(steps, *, phase_ns=None, flagged=None):
    """Steps without marks, of which so much is known all the same."""
    return OutsideSpan(
        where=UNMARKED_STEPS,
        start_ns=0,
        dur_ns=0,
        phase_ns=phase_ns or {},
        steps=steps,
        flagged=flagged or {},
    )


class TestWorkerStartup:
    def test_proposes_to_keep_the_workers(self, judge):
        (finding,) = judge(
            "worker-startup", EPOCHS, flags=EPOCH_FLAGS, loader=Loader(num_workers=1)
        )
        # 99.9 ms at each of 10 epochs, of which the first stays, and a fifth more that goes with
        # it; one batch at least is made.
        step_ns = finding.evidence["step_ns"]
        assert finding.saving_ns.high == round(1.2 * 9 * 99_900 * US / 100)
        assert finding.saving_ns.low == (99_900 * US - step_ns) * 9 // 100
        assert finding.change == "DataLoader(..., num_workers=1, persistent_workers=True)"

    def test_steps_that_were_not_marked_share_the_cost(self, judge):
        more = unmarked(300)
        run = {"flags": EPOCH_FLAGS, "loader": Loader(num_workers=1)}
        (plain,) = judge("worker-startup", EPOCHS, **run)
        (finding,) = judge("worker-startup", EPOCHS, **run, records=[more])
        assert finding.saving_ns.high == plain.saving_ns.high // 4

    def test_has_nothing_to_say_without_workers(self, judge):
        run = {"flags": EPOCH_FLAGS, "loader": Loader(num_workers=0)}
        assert judge("worker-startup", EPOCHS, **run) is None

    def test_the_first_start_says_nothing_of_the_later_ones(self, judge):
        waits = [2_000 * MS, *EPOCHS["data_wait"][1:]]
        run = {"flags": EPOCH_FLAGS, "loader": Loader(num_workers=1)}
        (finding,) = judge("worker-startup", {**WORK, "data_wait": waits}, **run)
        assert finding.evidence["startup_per_epoch_ns"] == 99_900 * US
        once = every(1_000, 2_000 * MS, 100 * US)
        flags = every(1_000, StepFlag.EPOCH_START)
        run = {"flags": flags, "loader": Loader(num_workers=1)}
        assert judge("worker-startup", {**WORK, "data_wait": once}, **run) is None

    def test_pages_copied_after_the_start_are_part_of_its_cost(self, judge):
        slow = every(10, 31 * MS, 4 * MS)
        run = {"flags": EPOCH_FLAGS, "loader": Loader(num_workers=1)}
        (plain,) = judge("worker-startup", EPOCHS, **run)
        (finding,) = judge("worker-startup", {**EPOCHS, "backward": slow}, **run)
        assert finding.evidence["slowed_per_epoch_ns"] == 27 * MS
        assert finding.saving_ns.high == plain.saving_ns.high + round(1.2 * 27 * MS * 9 / 100)

    def test_a_loader_that_is_made_anew_keeps_no_workers(self, judge):
        run = {"flags": EPOCH_FLAGS, "loader": Loader(num_workers=1), "records": [REMADE]}
        (finding,) = judge("worker-startup", EPOCHS, **run)
        (kept,) = judge("worker-startup", EPOCHS, flags=EPOCH_FLAGS, loader=Loader(num_workers=1))
        assert (finding.change, span(finding)) == (None, span(kept))
        assert "reload_dataloaders_every_n_epochs=0" in finding.advice

    def test_workers_that_are_kept_do_not_start_again(self, judge):
        loader = Loader(num_workers=1, persistent_workers=True)
        assert judge("worker-startup", EPOCHS, flags=EPOCH_FLAGS, loader=loader) is None

    def test_abstains_where_no_epoch_begins(self, judge):
        assert isinstance(judge("worker-startup", WORK), Abstained)

    VALIDATED: ClassVar = {
        "phases": {**WORK, "validation": every(10, 60 * MS, first=9)},
        "flags": every(10, StepFlag.VALIDATION, first=9),
        "parts": {
            "validation/loader start": every(10, 25 * MS, first=9),
            "validation/first batch": every(10, 15 * MS, first=9),
            "validation/next batches": every(10, 2 * MS, first=9),
        },
    }

    def test_workers_of_each_validation_are_a_finding_of_their_own(self, judge):
        loader = Loader(num_workers=2, length=8)
        (finding,) = judge("worker-startup", **self.VALIDATED, validation_loader=loader)
        assert finding.where[0].phase == "validation"
        assert finding.change == (
            "DataLoader(..., num_workers=2, persistent_workers=True)  # the validation's"
        )
        # 40 ms each at most; of the first batch two workers' share of 20 ms stays, and one start.
        assert span(finding) == (round(0.8 * 9 * 35 * MS / 100), round(1.2 * 10 * 40 * MS / 100))
        assert finding.evidence["startup_per_validation_ns"] == 40 * MS

    def test_of_few_batches_only_the_making_of_the_workers_is_sure_to_go(self, judge):
        loader = Loader(num_workers=2, length=3)
        (finding,) = judge("worker-startup", **self.VALIDATED, validation_loader=loader)
        assert finding.saving_ns.low == round(0.8 * 9 * 25 * MS / 100)

    def test_of_an_iterable_the_first_batch_may_be_made_as_the_loader_starts(self, judge):
        def least(**loader):
            loader = Loader(num_workers=2, dataset_kind="iterable", **loader)
            (finding,) = judge("worker-startup", **self.VALIDATED, validation_loader=loader)
            return finding.saving_ns.low

        assert least() == least(length=3) == 0
        # Two workers' share of 20 ms in 4 batches stays, of the first wait of 15 ms or of before.
        assert least(length=4) == round(0.8 * 9 * 30 * MS / 100)

    @pytest.mark.parametrize(
        "loader",
        [None, Loader(num_workers=0), Loader(num_workers=2, persistent_workers=True)],
        ids=["unknown", "none", "kept"],
    )
    def test_validations_without_workers_of_their_own_start_none(self, judge, loader):
        outcome = judge("worker-startup", **self.VALIDATED, validation_loader=loader)
        assert isinstance(outcome, Abstained)

    def test_a_start_that_was_not_timed_is_not_told(self, judge):
        run = {**self.VALIDATED, "parts": {}, "validation_loader": Loader(num_workers=2)}
        assert isinstance(judge("worker-startup", **run), Abstained)

    def test_frequent_validation_leaves_out_what_the_workers_start_takes(self, judge):
        once = Loader(num_workers=2, length=8)
        kept = Loader(num_workers=2, length=8, persistent_workers=True)
        told = [
            judge("frequent-validation", **self.VALIDATED, validation_loader=loader)
            for loader in (once, kept)
        ]
        assert told[0].evidence == told[1].evidence
        assert told[0].saving_ns.high == round(told[1].saving_ns.high / 3)

    def test_workers_that_hand_over_rows_in_memory_are_done_without(self, judge):
        loader = Loader(num_workers=1, in_memory=True)
        run = {"flags": EPOCH_FLAGS, "loader": loader, "columns": {"samples": 4}}
        waits = {**WORK, "data_wait": every(10, 100 * MS, MS)}
        finding = judge("data-wait", waits, **run)
        (start,) = judge("worker-startup", waits, **run)
        assert finding.change == start.change == "DataLoader(..., num_workers=0)"
        # A wait of 1 ms but for four rows of 6 us; the starts lie between steady steps.
        assert span(finding) == (round(0.8 * MS) - 24 * US, round(1.2 * MS))
        assert (start.when, start.saving_ns.high) == (When.BETWEEN, round(1.2 * 9 * 99 * MS / 100))

    @pytest.mark.parametrize("in_memory", [False, True])
    def test_starts_between_epochs_may_take_longer_than_all_steps(self, judge, in_memory):
        began = OutsideSpan("epoch_end", 0, 900 * MS, phase_ns={"data_wait": 900 * MS})
        loader = Loader(num_workers=1, in_memory=in_memory)
        run = {"flags": EPOCH_FLAGS, "loader": loader, "columns": {"samples": 4}}
        phases = {"forward": MS, "data_wait": MS}
        (start,) = judge("worker-startup", phases, **run, records=[began])
        # 100 ms for each of ten steps of 2 ms, one of which is the first batch's making.
        assert span(start) == (98 * MS * 9 // 100, round(1.2 * 9 * MS))
        if in_memory:
            low, high = span(judge("data-wait", phases, **run, records=[began]))
            assert low < high <= 2 * MS

    @pytest.mark.parametrize(("size", "saved_ms"), [(50, 39.6), (200, None), (None, None)])
    def test_validations_do_without_workers_where_their_rows_are_made_sooner(
        self, judge, size, saved_ms
    ):
        loader = Loader(num_workers=2, length=8, batch_size=size, in_memory=True)
        (finding,) = judge("worker-startup", **self.VALIDATED, validation_loader=loader)
        if saved_ms is None:
            # To make 1,600 rows takes 9.6 ms of the 42 ms that it waits: kept workers save 35 ms.
            assert "persistent_workers=True" in finding.change
            return
        assert finding.change == "DataLoader(..., num_workers=0)  # the validation's"
        saved_ns = round(saved_ms * MS)
        assert span(finding) == (round(0.8 * 9 * saved_ns / 100), round(1.2 * 10 * saved_ns / 100))


class TestSlowEpochStart:
    def test_names_what_a_dataset_does_before_its_first_sample(self, judge):
        finding = judge("slow-epoch-start", EPOCHS, flags=EPOCH_FLAGS, loader=Loader(num_workers=0))
        assert finding.evidence["first_batch_per_epoch_ns"] == 99_900 * US
        assert span(finding) == (0, 9 * 99_900 * US // 100)
        assert finding.severity is Severity.CRITICAL

    def test_with_workers_it_is_their_start(self, judge):
        run = {"flags": EPOCH_FLAGS, "loader": Loader(num_workers=1)}
        assert judge("slow-epoch-start", EPOCHS, **run) is None

    def test_is_silent_where_epochs_begin_as_they_go_on(self, judge):
        run = {"flags": EPOCH_FLAGS, "loader": Loader(num_workers=0)}
        assert judge("slow-epoch-start", {**WORK, "data_wait": 100 * US}, **run) is None

    def test_abstains_without_epochs(self, judge):
        assert isinstance(judge("slow-epoch-start", WORK), Abstained)


class TestRebuiltLoader:
    @pytest.mark.parametrize("workers", [0, 4])
    def test_says_what_making_the_loader_again_takes(self, judge, workers):
        run = {"flags": EPOCH_FLAGS, "loader": Loader(num_workers=workers), "records": [REMADE]}
        finding = judge("rebuilt-loader", EPOCHS, **run)
        assert finding.evidence["remade_per_epoch_ns"] == 20 * MS
        # Half of it at least, where it must be done again; all and a fifth where it need not.
        assert span(finding) == (900 * US, 2_160 * US)
        assert finding.confidence == 0.9
        assert (finding.where[0].name, finding.change) == ("train_dataloader", None)

    def test_is_silent_where_the_loader_stays(self, judge):
        assert judge("rebuilt-loader", EPOCHS, flags=EPOCH_FLAGS) is None

    def test_abstains_without_epochs(self, judge):
        assert isinstance(judge("rebuilt-loader", WORK), Abstained)


class TestHostSync:
    SITE = SyncSite(
        file="model.py",
        line=7,
        function="step",
        source="x.item()",
        owner="user",
        operation="item",
        count=30,
        steps_watched=10,
        blocked_ns=20 * MS,
    )

    def test_a_loop_of_reads_is_named_with_the_operators_around_them(self, judge):
        operators = [op("aten::item", 200, MS), op("aten::sub", 800, 4 * MS)]
        finding = judge(
            "host-sync",
            WORK,
            trace={"operators": operators},
            model={"dtypes": {"float32": 2}, "optimizers": [{"class": "AdamW", "fused": True}]},
        )
        assert finding.evidence["reads_per_step_count"] == 100
        # Beside the reads 400 calls per step, 40 of which the two tensors account for.
        assert span(finding) == (5_400_000, 9 * MS)

    def test_longer_operators_in_the_loop_go_with_it(self, judge):
        operators = [op("aten::item", 200, MS), op("aten::sub", 800, 16 * MS)]
        finding = judge(
            "host-sync",
            WORK,
            trace={"operators": operators},
            model={"dtypes": {"float32": 2}, "optimizers": [{"class": "AdamW", "fused": True}]},
        )
        # Of 10 ms nine tenths of what is not in the 8 ms of long calls, and these; of each of the
        # 400 calls 10 us go at least, as with short ones.
        assert span(finding) == (3_240_000, 9_800_000)

    def test_the_reads_of_an_unfused_optimizer_are_not_the_users(self, judge):
        operators = [op("aten::item", 200, 2 * MS), op("aten::mul", 200, 2 * MS)]
        model = {"dtypes": {"float32": 100}, "optimizers": [{"class": "AdamW"}]}
        assert judge("host-sync", WORK, trace={"operators": operators}, model=model) is None

    def test_the_reads_inside_of_any_optimizers_update_are_not_the_users(self, judge):
        # Fused ones read their step counts on a CPU, too: the trace has them in the update.
        read = op("aten::item", 200, 2 * MS) | {"update_count": 200}
        model = {"dtypes": {"float32": 100}, "optimizers": [{"class": "AdamW", "fused": True}]}
        operators = [read, op("aten::mul", 200, 2 * MS)]
        assert judge("host-sync", WORK, trace={"operators": operators}, model=model) is None
        operators[0] = read | {"update_count": 0}
        assert judge("host-sync", WORK, trace={"operators": operators}, model=model) is not None

    def test_the_line_that_blocks_a_gpu_is_named(self, judge):
        finding = judge("host-sync", WORK, records=[self.SITE], device=Device(type="cuda"))
        assert (finding.where[0].file, finding.where[0].line) == ("model.py", 7)
        assert span(finding) == (0, 2 * MS)

    def test_a_replay_of_the_trace_without_syncs_says_what_they_cost(self, judge):
        trace = {
            "gpu": {"span_ns": 20 * MS},
            "sync_ns": 6 * MS,
            "what_if": {"savings": [{"part": "sync", "saved_ns": 4 * MS}]},
        }
        finding = judge("host-sync", WORK, trace=trace, device=Device(type="cuda"))
        assert finding.evidence["blocked_ns"] == 3 * MS
        assert span(finding) == (1_400 * US, 2_600 * US)

    def test_reads_that_would_stop_a_gpu_are_a_fact_on_a_cpu(self, judge):
        finding = judge("host-sync", WORK, records=[self.SITE])
        assert finding.title == "3.0 reads of values per step would each stop the host on a GPU"
        assert span(finding) == (0, 0)

    def test_abstains_when_nobody_looked(self, judge):
        assert isinstance(judge("host-sync", WORK), Abstained)

    @pytest.mark.parametrize("device", [Device(type="cpu"), Device(type="cuda")])
    def test_finds_nothing_where_steps_were_watched_and_none_synced(self, judge, device):
        watched = Note(step=8, name=SYNC_STEPS_NOTE, value=3)
        assert judge("host-sync", WORK, records=[watched], device=device) is None


SLOWER = {"forward": [MS + step * 100 * US for step in range(500)], "backward": 4 * MS}


class TestMemoryGrowth:
    def test_memory_that_rises_all_along_is_told(self, judge):
        notes = [Note(step=50 * i, name="rss_bytes", value=10**9 + i * 10**7) for i in range(10)]
        finding = judge("memory-growth", WORK, records=notes)
        assert finding.severity is Severity.WARNING
        assert finding.evidence["growth_per_step_bytes"] == 200_000

    def test_graphs_that_are_kept_are_said_to_be_the_cause(self, judge):
        notes = [Note(step=50 * i, name="rss_bytes", value=10**9 + i * 10**7) for i in range(10)]
        kept = Note(step=3, name="kept_graphs", value=True)
        finding = judge("memory-growth", WORK, records=[*notes, kept])
        assert finding.title.endswith("the graphs of earlier steps are kept, and memory with them")
        alone = judge("memory-growth", WORK, records=[kept])
        assert alone.severity is Severity.WARNING
        assert span(alone) == (0, 0)

    def test_a_cache_that_fills_and_stops_is_not_told(self, judge):
        sizes = [1, 2, 3, 4, 5, 6, 6, 6, 6, 6]
        notes = [Note(step=i, name="rss_bytes", value=s * 10**8) for i, s in enumerate(sizes)]
        assert judge("memory-growth", WORK, records=notes) is None

    def test_a_forward_that_gets_slower_with_it_costs_what_it_grew_by(self, judge):
        notes = [Note(step=50 * i, name="rss_bytes", value=10**9 + i * 10**7) for i in range(10)]
        finding = judge("memory-growth", SLOWER, steps=500, records=notes)
        grown = finding.evidence["forward_last_ns"] - finding.evidence["forward_first_ns"]
        # Up to the middle of the first sixteenth it had grown as well, by 100 us a step.
        before = round(500 / 32 * 100 * US)
        assert span(finding) == (
            finding.evidence["grown_per_step_ns"],
            pytest.approx(grown + before, abs=50 * US),
        )
        assert "forward went from" in finding.title

    def test_a_forward_that_gets_slower_is_a_fact_where_memory_was_not_measured(self, judge):
        # By less than what `growing-cost` tells, which this is not to tell a second time.
        slightly = {**SLOWER, "forward": [50 * MS + step * 20 * US for step in range(500)]}
        finding = judge("memory-growth", slightly, steps=500)
        assert finding.severity is Severity.INFO
        assert isinstance(judge("memory-growth", SLOWER, steps=500), Abstained)
        assert span(finding)[0] == finding.evidence["grown_per_step_ns"] > 0

    def test_a_forward_that_gets_slower_while_memory_does_not_is_not_told(self, judge):
        notes = [Note(step=50 * i, name="rss_bytes", value=10**9) for i in range(10)]
        assert judge("memory-growth", SLOWER, steps=500, records=notes) is None

    def test_growth_is_seen_on_a_machine_that_others_slow_down_now_and_then(self, judge):
        notes = [Note(step=50 * i, name="rss_bytes", value=10**9 + i * 10**7) for i in range(10)]
        slowed = [2 if step % 100 < 70 and step < 400 else 1 for step in range(500)]
        phases = {
            "forward": [n * (4 * MS + step * 10 * US) for step, n in enumerate(slowed)],
            "backward": [n * 4 * MS for n in slowed],
        }
        finding = judge("memory-growth", phases, steps=500, records=notes)
        assert "forward went from" in finding.title
        # The pace of most steps is taken as usual: 4 ms, and 10 us more in each step.
        assert finding.evidence["forward_last_ns"] > 1.9 * finding.evidence["forward_first_ns"]
        steady = {**phases, "forward": [n * 4 * MS for n in slowed]}
        assert "forward" not in judge("memory-growth", steady, steps=500, records=notes).title

    @pytest.mark.parametrize(
        ("source", "wanted", "change"),
        [
            ("self.held[key] = torch.cat([old, new])", 35, "instead of torch.cat"),
            ("self.losses.append(loss)", 35, "instead of self.losses.append(loss)"),
            ("x = torch.cat([x, noise], 1)", None, "instead of self.losses.append(loss)"),
        ],
    )
    def test_the_line_that_adds_to_what_is_kept_is_named(self, judge, source, wanted, change):
        lines = (
            LineCount("forward", "train.py", 9, "forward", "x = self.net(x)", None, "model", 60),
            LineCount("forward", "train.py", 35, "add", source, None, None, 20),
        )
        seen = Note(step=9, name=NOTE, value=HostLines(100, lines, {"forward": 100}))
        notes = [Note(step=50 * i, name="rss_bytes", value=10**9 + i * 10**7) for i in range(10)]
        finding = judge("memory-growth", SLOWER, steps=500, records=[*notes, seen])
        assert finding.where[0].line == wanted
        assert change in finding.change

    def test_a_machine_that_gets_slower_is_not_told(self, judge):
        slower = {**SLOWER, "backward": SLOWER["forward"]}
        assert isinstance(judge("memory-growth", slower, steps=500), Abstained)


class TestSlowLogging:
    def test_names_the_logger(self, judge):
        (finding,) = judge(
            "slow-logging", {**WORK, "logging": 2 * MS}, parts={"logging/CSVLogger": 2 * MS}
        )
        assert "CSVLogger" in finding.title
        assert finding.evidence["logging_ns"] == 1_980 * US  # without the longest of 100 steps
        assert span(finding) == (1_267_200, 2_376_000)
        assert finding.change == "Trainer(..., log_every_n_steps=50)"

    def test_what_a_logger_does_once_is_not_what_logging_takes(self, judge):
        logging = every(100, 2_000 * MS)
        assert judge("slow-logging", {**WORK, "logging": logging}) is None

    def test_where_the_calls_themselves_take_longest_they_are_what_to_guard(self, judge):
        parts = {"logging/self.log": 1_500 * US, "logging/CSVLogger": 500 * US}
        (finding,) = judge("slow-logging", {**WORK, "logging": 2 * MS}, parts=parts)
        assert finding.change.startswith(f"if {LOGGED}:\n    self.log(")

    def test_loggers_that_get_values_often_would_get_the_guarded_ones_over_and_over(self, judge):
        parts = {"logging/self.log": 2_500 * US, "logging/WandbLogger": 500 * US}
        phases, trainer = {**WORK, "logging": 3 * MS}, {"log_every_n_steps": 1}
        (found,) = judge("slow-logging", phases, parts=parts, trainer=trainer)
        setting = "Trainer(..., log_every_n_steps=50)"
        assert found.change.startswith(f"{setting}\nif {LOGGED}:\n    self.log(")
        assert "the Trainer's setting alone saves 295 µs to 553 µs" in found.advice

    def test_a_condition_around_the_calls_leaves_a_logger_that_is_called_seldom(self, judge):
        parts = {"logging/self.log": 1_500 * US, "logging/WandbLogger": 500 * US}
        phases, trainer = {**WORK, "logging": 2 * MS}, {"log_every_n_steps": 50}
        (found,) = judge("slow-logging", phases, parts=parts, trainer=trainer)
        assert found.saving_ns.high == 1_800 * US

    def test_a_logger_that_is_called_more_often_than_the_trainer_does_is_called_by_the_program(
        self, judge
    ):
        phases, parts = {**WORK, "logging": 2 * MS}, {"logging/WandbLogger": 2 * MS}
        (finding,) = judge("slow-logging", phases, parts=parts, trainer={"log_every_n_steps": 50})
        assert finding.change.startswith(f"if {LOGGED}:\n    self.logger")
        # 2 of 100 are the Trainer's.
        assert finding.saving_ns.high == round(1.2 * 0.98 * 2 * MS)
        assert "on_epoch" not in finding.advice

    def test_a_logger_that_only_the_trainer_calls_and_seldom_is_not_told(self, judge):
        seldom = every(50, 100 * MS, first=49)
        parts, phases = {"logging/WandbLogger": seldom}, {**WORK, "logging": seldom}
        trainer = {"log_every_n_steps": 50}
        assert judge("slow-logging", phases, parts=parts, trainer=trainer) is None

    def test_a_setting_of_some_steps_leaves_a_share_of_what_loggers_take(self, judge):
        taken = every(10, 20 * MS, first=9)
        parts, phases = {"logging/WandbLogger": taken}, {**WORK, "logging": taken}
        (finding,) = judge("slow-logging", phases, parts=parts, trainer={"log_every_n_steps": 10})
        # 1.8 ms a step without the longest, of which the logger's steps that are left take a fifth.
        assert finding.saving_ns.high == round(1.2 * 0.8 * 1_800 * US)

    def test_a_value_in_each_step_is_no_warning_however_short_the_steps(self, judge):
        short = {"forward": 2 * MS}
        parts = {"logging/self.log": 300 * US}
        assert judge("slow-logging", {**short, "logging": 300 * US}, parts=parts)[0].severity is (
            Severity.INFO
        )
        # What the logger takes beside it is, and the setting that mends this leaves the call.
        parts["logging/CSVLogger"] = 300 * US
        often = {"log_every_n_steps": 1}
        phases = {**short, "logging": 600 * US}
        (found,) = judge("slow-logging", phases, parts=parts, trainer=often)
        assert found.severity is Severity.WARNING
        assert found.change == "Trainer(..., log_every_n_steps=50)"
        # Without the longest of 100 steps, and one in 50 stays.
        assert found.saving_ns.high == round(1.2 * 0.98 * 294 * US)
        many = {"logging/self.log": 3 * MS}
        assert judge("slow-logging", {**WORK, "logging": 3 * MS}, parts=many)[0].severity is (
            Severity.WARNING
        )

    def test_norms_taken_in_a_hook_belong_to_logging_and_not_to_callbacks(self, judge):
        options = {
            "parts": {"other/on_before_optimizer_step": 3 * MS},
            "trace": {"operators": [op("aten::linalg_vector_norm", 10, MS)]},
        }
        (finding,) = judge("slow-logging", {**WORK, "other": 3 * MS}, **options)
        assert "on_before_optimizer_step" in finding.change
        assert finding.evidence["logging_ns"] == 3 * MS
        assert judge("slow-callback", {**WORK, "other": 3 * MS}, **options) == ()

    def test_norms_taken_in_a_hook_that_logs_nothing_clip_gradients(self, judge):
        options = {
            "parts": {"other/on_before_optimizer_step": 3 * MS},
            "trace": {"operators": [op("aten::linalg_vector_norm", 10, MS)]},
        }
        line = LineCount("other", "t.py", 3, "hook", "total += p.grad.norm()", None, None, 20)

        def sampled(*lines):
            return [Note(step=9, name=NOTE, value=HostLines(50, lines, {"other": 50}))]

        phases = {**WORK, "other": 3 * MS}
        assert judge("slow-logging", phases, records=sampled(line), **options) is None
        (finding,) = judge("slow-callback", phases, records=sampled(line), **options)
        assert "another training" in finding.advice
        hook = "on_before_optimizer_step"
        logs = LineCount("logging", "t.py", 4, hook, "self.log_dict(norms)", None, "log", 1)
        (found,) = judge("slow-logging", phases, records=sampled(line, logs), **options)
        assert "on_before_optimizer_step" in found.change

    def test_a_picture_in_each_step_is_told_with_its_line_apart_from_the_loggers(self, judge):
        line = LineCount(
            "logging",
            "t.py",
            7,
            "training_step",
            "board.add_image(x)",
            "torch.add_image",
            "log",
            40,
        )
        other = LineCount(
            "logging", "t.py", 9, "training_step", "self.log(y)", "lightning.log", "log", 40
        )
        lines = Note(step=9, name=NOTE, value=HostLines(100, (other, line), {"logging": 80}))
        parts = {"logging/self.log": MS, "logging/experiment.add_image": 4 * MS}
        usual, picture = judge(
            "slow-logging", {**WORK, "logging": 5 * MS}, parts=parts, records=[lines]
        )
        assert usual.evidence["logging_ns"] == 990 * US
        assert picture.title == (
            "experiment.add_image, called in each step, takes 3.96 ms of each step on average "
            "(26.4%)"
        )
        assert (picture.where[0].line, picture.where[1].name) == (7, "experiment.add_image")
        assert picture.change == f"if {LOGGED}:\n    self.logger.experiment.add_image(...)"
        # One in 50 stays; at least four fifths go.
        assert span(picture) == (
            round(0.8 * 0.8 * 3_960 * US), round(0.98 * 1.2 * 3_960 * US)
        )  # fmt: skip

    def test_pictures_in_one_of_many_steps_are_proposed_a_fifth_as_often(self, judge):
        taken = every(20, 60 * MS, first=19)
        parts = {"logging/experiment.add_histogram": taken}
        (found,) = judge("slow-logging", {**WORK, "logging": taken}, parts=parts)
        assert "called in one of 20 steps" in found.title
        assert found.evidence["steps_between_count"] == 20
        assert "% 100 == 0:" in found.change
        # Four of the five times count: the first may import what draws.
        assert found.saving_ns.high == round(1.2 * 0.8 * 4 * 60 * MS / 100)

    def test_pictures_in_validation_are_told_there(self, judge):
        taken = every(20, 60 * MS, first=19)
        parts = {"validation/experiment.add_figure": taken}
        (found,) = judge("slow-logging", {**WORK, "validation": taken, "logging": 0}, parts=parts)
        assert found.when is When.ALSO_BETWEEN
        assert found.where[0] == Where(phase="validation", name="experiment.add_figure")
        assert found.change.startswith("if batch_idx == 0 and self.current_epoch % 5 == 0:")

    def test_values_that_ranks_exchange_in_each_step_are_named(self, judge):
        note = Note(step=1, name=SYNCED_NOTE, value=("loss", "accuracy"))
        options = {"parts": {"logging/self.log": 3 * MS}, "records": [note]}
        (found,) = judge("slow-logging", {**WORK, "logging": 3 * MS}, **options)
        assert "Leave sync_dist=True out of what is logged in each step (loss, accuracy)" in (
            found.advice
        )

    def test_another_hook_of_the_module_is_a_slow_callback(self, judge):
        (finding,) = judge(
            "slow-callback", {**WORK, "other": 3 * MS}, parts={"other/on_train_batch_end": 3 * MS}
        )
        assert finding.change.startswith("def on_train_batch_end")


class TestSlowCheckpoint:
    def test_proposes_no_interval_beyond_a_run_that_has_ended(self, judge):
        finding = judge(
            "slow-checkpoint",
            {**WORK, "checkpoint": every(10, 20 * MS, first=9)},
            flags=every(10, StepFlag.CHECKPOINT, first=9),
        )
        assert finding.evidence["per_checkpoint_ns"] == 20 * MS
        assert finding.change == "ModelCheckpoint(..., every_n_train_steps=50)"
        assert span(finding) == (1_280 * US, 1_920 * US)

    def test_saves_that_waited_for_the_disk_are_saved_at_most(self, judge):
        saving = every(10, 20 * MS, first=9)
        saving[49] = 70 * MS
        flags = every(10, StepFlag.CHECKPOINT, first=9)
        finding = judge("slow-checkpoint", {**WORK, "checkpoint": saving}, flags=flags)
        # Four fifths of 2 to 2.5 ms a step.
        assert span(finding) == (1_280 * US, 2_400 * US)

    def test_a_run_that_goes_on_is_given_the_interval_that_keeps_it_at_a_hundredth(self, judge):
        finding = judge(
            "slow-checkpoint",
            {**WORK, "checkpoint": every(10, 20 * MS, first=9)},
            flags=every(10, StepFlag.CHECKPOINT, first=9),
            end=False,
        )
        assert finding.change == "ModelCheckpoint(..., every_n_train_steps=200)"

    BETWEEN = OutsideSpan(
        where="epoch_end",
        start_ns=0,
        dur_ns=50 * MS,
        phase_ns={"checkpoint": 50 * MS},
        flagged={"checkpoint": 1},
    )
    EPOCHS_OF_TWENTY: ClassVar = {
        "columns": {"epoch": [step // 20 for step in range(100)]},
        "parts": {"checkpoint/ModelCheckpoint": 1},
    }

    def test_checkpoints_between_epochs_count(self, judge):
        saved = {**WORK, "checkpoint": 1}
        epochs = self.EPOCHS_OF_TWENTY
        finding = judge("slow-checkpoint", saved, records=[self.BETWEEN] * 5, **epochs)
        assert finding.evidence["checkpoints_count"] == 5
        assert finding.evidence["checkpoint_ns"] == 2_500_001
        assert finding.severity is Severity.CRITICAL
        assert finding.change == "ModelCheckpoint(..., every_n_epochs=5)"
        assert span(finding) == (1_600_000, 2_400_001)

    def test_a_run_of_few_epochs_still_ends_with_a_checkpoint(self, judge):
        saved = {**WORK, "checkpoint": 1}
        three = {"columns": {"epoch": [step // 40 for step in range(100)]}}
        finding = judge("slow-checkpoint", saved, records=[self.BETWEEN] * 3, **three)
        assert finding.change == "ModelCheckpoint(..., every_n_epochs=5, save_last=True)"
        # One of the three stays, at 1.5 ms a step for all.
        assert span(finding) == (800_000, 1_200_001)

    def test_the_only_checkpoint_of_a_whole_run_is_no_finding(self, judge):
        saved = {**WORK, "checkpoint": 1}
        assert judge("slow-checkpoint", saved, records=[self.BETWEEN]) is None

    def test_the_interval_is_told_in_epochs_where_not_each_is_saved(self, judge):
        saved = {**WORK, "checkpoint": 1}
        ten = {"columns": {"epoch": [step // 10 for step in range(100)]}}
        change = judge("slow-checkpoint", saved, records=[self.BETWEEN] * 5, **ten).change
        assert change == "ModelCheckpoint(..., every_n_epochs=10)"

    def test_what_fills_a_checkpoint_and_never_changes_is_left_out(self, judge):
        def content(**sizes):
            given = {"trained_bytes": 0, "frozen_bytes": 0, "buffer_bytes": 0, "optimizer_bytes": 0}
            value = CheckpointContent(**(given | sizes), largest_frozen="words.weight")
            return [self.BETWEEN] * 5 + [Note(step=20, name=CHECKPOINT_NOTE, value=value)]

        def said(**sizes):
            saved = {**WORK, "checkpoint": 1}
            epochs = self.EPOCHS_OF_TWENTY
            return judge("slow-checkpoint", saved, records=content(**sizes), **epochs)

        buffers = (("words.vectors", 60 << 20), ("mask", 20 << 20))
        constant = said(
            trained_bytes=5 << 20,
            buffer_bytes=90 << 20,
            optimizer_bytes=5 << 20,
            largest_buffers=buffers,
        )
        assert constant.severity is Severity.CRITICAL
        assert constant.change == (
            'self.register_buffer("vectors", ..., persistent=False)\n'
            'self.register_buffer("mask", ..., persistent=False)'
        )
        assert "90.0 MiB of the 100 MiB of each are buffers, above all words.vectors" in (
            constant.advice
        )
        # The code leaves out the buffers that it names.
        assert span(constant) == (1_600_000, round(1.2 * 0.9 * 2_500_001))
        frozen = said(trained_bytes=20 << 20, frozen_bytes=80 << 20)
        assert "frozen weights" in frozen.advice
        assert 'del checkpoint["state_dict"][name]' in frozen.change
        table = (("table", 85 << 20), ("config", 1 << 20))
        kept = said(trained_bytes=10 << 20, hparams_bytes=90 << 20, largest_hparams=table)
        assert kept.change == 'self.save_hyperparameters(ignore=["table"])'
        assert kept.saving_ns.low == 1_700_000
        assert "90.0 MiB of the 100 MiB of each are hyperparameters, above all table" in kept.advice
        assert "load_from_checkpoint(path, table=...)" in kept.advice
        mixed = said(trained_bytes=20 << 20, frozen_bytes=50 << 20, buffer_bytes=30 << 20)
        # The code leaves out the frozen weights alone.
        assert span(mixed) == (round(0.8 * 0.5 * 2_500_001), round(1.2 * 0.8 * 2_500_001))
        trained = said(trained_bytes=30 << 20, frozen_bytes=10 << 20, optimizer_bytes=60 << 20)
        assert "Leave out" not in trained.advice
        assert trained.evidence["fixed_bytes"] == 10 << 20

    def test_is_silent_without_checkpoints(self, judge):
        assert judge("slow-checkpoint", WORK) is None


OFTEN = {
    "phases": {**WORK, "validation": every(32, 100 * MS, first=31, count=640)},
    "flags": every(32, StepFlag.VALIDATION, first=31, count=640),
    "steps": 640,
}


class TestFrequentValidation:
    def test_counts_what_one_takes_and_how_many_there_were(self, judge):
        finding = judge(
            "frequent-validation",
            {**WORK, "validation": every(10, 30 * MS, first=9)},
            flags=every(10, StepFlag.VALIDATION, first=9),
        )
        assert finding.evidence["validations_count"] == 10
        assert finding.change == "Trainer(..., val_check_interval=100)"
        # Of the 3 ms a step, a tenth stays.
        assert span(finding) == (2_160 * US, 3_240 * US)

    def test_those_in_steps_without_marks_count(self, judge):
        phases = {**WORK, "validation": every(50, 30 * MS, first=9)}
        flags = every(50, StepFlag.VALIDATION, first=9)
        more = unmarked(100, phase_ns={"validation": 240 * MS}, flagged={"validation": 8})
        evidence = judge("frequent-validation", phases, flags=flags, records=[more]).evidence
        assert evidence["validations_count"] == 10
        assert (evidence["validation_ns"], evidence["per_validation_ns"]) == (1_500 * US, 30 * MS)

    def test_one_hook_that_is_most_of_it_is_named(self, judge):
        phases = {**WORK, "validation": every(10, 30 * MS, first=9)}
        flags = every(10, StepFlag.VALIDATION, first=9)
        for part, named in ((20 * MS, "on_validation_epoch_end"), (10 * MS, None)):
            parts = {"validation/on_validation_epoch_end": every(10, part, first=9)}
            finding = judge("frequent-validation", phases, flags=flags, parts=parts)
            assert finding.where[0].name == named
            assert finding.advice.startswith(f"Most of it is {named}:") is (named is not None)

    def test_an_interval_beyond_the_epoch_is_given_in_epochs(self, judge):
        finding = judge("frequent-validation", **OFTEN, loader=Loader(length=64))
        assert finding.change == "Trainer(..., check_val_every_n_epoch=6)"
        halves = {"val_check_interval": 0.5, "limit_train_batches": 1.0}
        finding = judge("frequent-validation", **OFTEN, loader=Loader(length=64), trainer=halves)
        assert finding.change == ("Trainer(..., check_val_every_n_epoch=6, val_check_interval=1.0)")

    def test_a_run_too_short_for_the_interval_is_told_of_fewer_batches(self, judge):
        phases = {**WORK, "validation": every(50, 900 * MS, first=49)}
        flags = every(50, StepFlag.VALIDATION, first=49)
        finding = judge("frequent-validation", phases, flags=flags, loader=Loader(length=50))
        assert finding.change == "Trainer(..., limit_val_batches=0.2)"

    def test_a_short_interval_of_their_own_is_named_and_lengthened_in_a_short_run(self, judge):
        finding = judge(
            "frequent-validation",
            {**WORK, "validation": every(25, 300 * MS, first=24, count=200)},
            flags=every(25, StepFlag.VALIDATION, first=24, count=200),
            steps=200,
            loader=Loader(length=200),
            trainer={"val_check_interval": 25},
        )
        assert "val_check_interval=25 asked for 8 of them here" in finding.advice
        assert finding.change == "Trainer(..., val_check_interval=120)"

    def test_many_short_epochs_are_validated_in_one_of_several(self, judge):
        finding = judge(
            "frequent-validation",
            {**WORK, "validation": every(20, 300 * MS, first=19, count=200)},
            flags=every(20, StepFlag.VALIDATION, first=19, count=200),
            steps=200,
            loader=Loader(length=20),
        )
        assert "val_check_interval" not in finding.advice
        assert finding.change == "Trainer(..., check_val_every_n_epoch=5)"

    @pytest.mark.parametrize(("each_ns", "told"), [(100 * MS, False), (2_000 * MS, True)])
    def test_short_validations_once_an_epoch_are_not_told(self, judge, each_ns, told):
        finding = judge(
            "frequent-validation",
            {**WORK, "validation": every(50, each_ns, first=49)},
            flags=every(50, StepFlag.VALIDATION, first=49),
            columns={"epoch": [step // 50 for step in range(100)]},
        )
        assert (finding is not None) is told

    SINGLY: ClassVar = {
        "phases": {**WORK, "validation": every(50, 64 * MS, first=49)},
        "flags": every(50, StepFlag.VALIDATION, first=49),
        "parts": {"validation/next batches": every(50, 4 * MS, first=49)},
        "columns": {"epoch": [step // 50 for step in range(100)], "samples": 16},
    }

    def test_batches_of_one_are_told_of_also_once_an_epoch(self, judge):
        loader = Loader(batch_size=1, length=64)
        finding = judge("frequent-validation", **self.SINGLY, validation_loader=loader)
        assert finding.change == "DataLoader(..., batch_size=16)  # the validation's"
        # Of 60 ms that they take once they are there, four forward passes stay.
        forward_ns = WORK["forward"]
        gone_ns = (60 * MS - 4 * forward_ns) * 2 // 100
        assert span(finding) == (gone_ns // 2, round(1.2 * gone_ns))

    @pytest.mark.parametrize("size", [None, 9, 16])
    def test_batches_that_are_not_much_smaller_are_not(self, judge, size):
        loader = Loader(batch_size=size, length=64 // (size or 1))
        assert judge("frequent-validation", **self.SINGLY, validation_loader=loader) is None


UPDATES = {**WORK, "optimizer_step": 10 * MS}


class TestUnfusedOptimizer:
    def model(self, **facts):
        return {"dtypes": {"float32": 100}, "optimizers": [{"class": "AdamW", **facts}]}

    def test_saves_the_loop_over_tensors(self, judge):
        finding = judge("unfused-optimizer", UPDATES, model=self.model())
        # 0.1 to 0.25 ms are the Trainer's. Beyond 25 us a tensor, fused leaves 20 to 60%.
        assert span(finding) == (
            9_750 * US - 600 * US - round(0.6 * 7_250 * US),
            9_900 * US - 200 * US - round(0.2 * 7_400 * US),
        )
        assert finding.change == "torch.optim.AdamW(..., fused=True)"

    def test_each_group_of_parameters_is_still_an_update_of_its_own(self, judge):
        one = judge("unfused-optimizer", UPDATES, model=self.model(groups=1))
        many = judge("unfused-optimizer", UPDATES, model=self.model(groups=101))
        low, high = span(one)
        assert span(many) == (low - 100 * 26 * US, high - 100 * 8 * US)

    def test_an_update_after_several_batches_is_shared_by_them(self, judge):
        each = judge("unfused-optimizer", UPDATES, model=self.model())
        fourth = [UPDATES["optimizer_step"] if step % 4 == 3 else 0 for step in range(100)]
        phases = UPDATES | {"optimizer_step": fourth}
        assert self.by_hand(judge, phases=phases).title.endswith("a Python loop over 100 tensors")
        shared = judge("unfused-optimizer", phases, model=self.model())
        assert shared.evidence["optimizer_ns"] == UPDATES["optimizer_step"] // 4
        assert span(shared) == tuple(one // 4 for one in span(each))

    def test_with_several_optimizers_whose_parameters_are_not_guessed(self, judge):
        model = {"dtypes": {"float32": 100}, "optimizers": [{"class": "Adam"}, {"class": "Adam"}]}
        finding = judge("unfused-optimizer", UPDATES, model=model)
        assert finding.change == "torch.optim.Adam(..., fused=True)  # each of the 2"

    def test_is_silent_where_the_fused_form_would_refuse_sparse_gradients(self, judge):
        def said(name):
            model = {"dtypes": {"float32": 100}, "optimizers": [{"class": name, "momentum": 0.9}]}
            return judge("unfused-optimizer", UPDATES, model={**model, "sparse_gradients": True})

        assert said("Adagrad") is None
        assert said("SGD") is None
        # It takes none at all: they are for another optimizer, or never asked for.
        assert said("Adam") is not None

    def test_plain_sgd_is_one_operator_per_tensor_already(self, judge):
        def sgd(**facts):
            return {"dtypes": {"float32": 6}, "optimizers": [{"class": "SGD", **facts}]}

        assert judge("unfused-optimizer", UPDATES, model=sgd()) is None
        assert judge("unfused-optimizer", UPDATES, model=sgd(momentum=0, weight_decay=0)) is None
        assert judge("unfused-optimizer", UPDATES, model=sgd(momentum=0.9)) is not None
        assert judge("unfused-optimizer", UPDATES, model=sgd(weight_decay=0.01)) is not None

    def test_what_the_trainer_does_around_a_few_small_tensors_is_not_saved(self, judge):
        model = {"dtypes": {"float32": 4}, "optimizers": [{"class": "Adam"}]}
        finding = judge("unfused-optimizer", {**WORK, "optimizer_step": 253 * US}, model=model)
        assert span(finding) == (0, 253 * US - 100 * US - 8 * US - round(0.2 * 53 * US))

    def test_is_silent_when_fused_or_without_a_fused_form(self, judge):
        assert judge("unfused-optimizer", UPDATES, model=self.model(fused=True)) is None
        other = {"dtypes": {"float32": 100}, "optimizers": [{"class": "Shampoo"}]}
        assert judge("unfused-optimizer", UPDATES, model=other) is None

    def by_hand(self, judge, name="PaperAdamW", calls=1_400, operator="aten::mul_", **options):
        phases = options.pop("phases", UPDATES)
        optimizers = [{"class": name, "groups": 1, "package": "paper"}]
        rows = [op(operator, calls, 4 * MS) | {"update_count": calls}]
        model = {"dtypes": {"float32": 100}, "optimizers": optimizers}
        trace = {"operators": rows}
        return judge("unfused-optimizer", phases, trace=trace, model=model, **options)

    def test_an_optimizer_written_by_hand_is_a_loop_that_torchs_own_would_end(self, judge):
        finding = self.by_hand(judge)
        assert finding.title == (
            "PaperAdamW takes 10.0 ms of each step (50.0%): a Python loop over 100 tensors, "
            "7 operators for each"
        )
        assert finding.change == "torch.optim.AdamW(..., fused=True)  # in place of PaperAdamW"
        assert span(finding) == span(judge("unfused-optimizer", UPDATES, model=self.model()))

    @pytest.mark.parametrize("name", ["Lion", "RAdam", "Adamax"])
    def test_one_that_torch_has_not_fused_saves_what_lists_do(self, judge, name):
        finding = self.by_hand(judge, name, phases={**UPDATES, "optimizer_step": 2 * MS})
        assert finding.change is None
        assert span(finding) == (700 * US, 1_400 * US)

    def test_for_large_tensors_lists_may_save_nothing(self, judge):
        # 100 us for each of a hundred tensors: small ones take a quarter of that.
        assert span(self.by_hand(judge, "Lion")) == (0, 1_400 * US)

    def test_a_trace_of_few_steps_may_have_more_than_its_share_of_updates(self, judge):
        phases = {**UPDATES, "optimizer_step": [0, 2 * MS] * 10}
        assert span(self.by_hand(judge, "Lion", phases=phases, steps=20)) == (0, MS)

    def test_on_a_gpu_launches_of_a_loop_may_be_hidden(self, judge):
        assert self.by_hand(judge, "Lion", device=Device(type="cuda")).saving_ns.low == 0

    def test_anothers_optimizer_that_goes_through_lists_is_no_loop(self, judge):
        assert self.by_hand(judge, operator="aten::_foreach_mul_") is None
        assert self.by_hand(judge, calls=400) is None

    def test_without_a_trace_nobody_knows_what_anothers_optimizer_does(self, judge):
        optimizers = [{"class": "PaperAdamW", "package": "paper"}]
        model = {"dtypes": {"float32": 100}, "optimizers": optimizers}
        assert isinstance(judge("unfused-optimizer", UPDATES, model=model), Abstained)

    def test_abstains_without_the_facts(self, judge):
        assert isinstance(judge("unfused-optimizer", UPDATES), Abstained)


class TestRetainedGraph:
    NODE = "autograd::engine::evaluate_function: AddmmBackward0"

    def test_nodes_that_run_more_often_than_their_operators(self, judge):
        operators = [op(self.NODE, 12, 6 * MS), op("aten::addmm", 4, MS)]
        finding = judge("retained-graph", WORK, trace={"operators": operators})
        assert finding.evidence["repeated_frac"] == pytest.approx(2 / 3)
        assert finding.evidence["passes_count"] == 3.0

    def test_a_pass_costs_its_own_nodes_and_its_share_of_what_lies_between_them(self, judge):
        # Per step two layers of 1 and 5 ms; the small one runs three times.
        node = op(self.NODE, 8, 16 * MS) | {"repeated_count": 4, "repeated_ns": 4 * MS}
        gradients = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
        operators = [
            node,
            op("aten::addmm", 4, MS),
            op("aten::ones_like", 6, 0),
            op(gradients, 16, 800 * US),
        ]
        model = {"dtypes": {"float32": 4}}
        phases = {"forward": 6 * MS, "backward": 10 * MS}
        finding = judge("retained-graph", phases, trace={"operators": operators}, model=model)
        # 2 ms in nodes, half of 0.4 ms of adding gradients, two thirds of the 1.6 ms between.
        cost = 2 * MS + 200 * US + 2 * 1_600 * US / 3
        assert finding.evidence["repeated_ns"] == pytest.approx(cost, abs=2)
        assert finding.evidence["passes_count"] == 2.0
        assert span(finding) == pytest.approx((0.8 * cost, 1.2 * cost), abs=2)

    def test_operators_in_place_make_nodes_too(self, judge):
        # As nn.GRU does on a CPU: one sigmoid of the model's own, the others in place.
        node = "autograd::engine::evaluate_function: SigmoidBackward0"
        operators = [
            op(node, 12, 6 * MS),
            op("aten::sigmoid", 2, MS),
            op("aten::sigmoid_", 10, MS),
        ]
        assert judge("retained-graph", WORK, trace={"operators": operators}) is None

    def test_a_graph_that_was_kept_and_gone_through_once_is_a_fact(self, judge):
        operators = [op(self.NODE, 4, 6 * MS), op("aten::addmm", 4, MS)]
        note = Note(step=3, name="retained_graph", value=True)
        finding = judge("retained-graph", WORK, trace={"operators": operators}, records=[note])
        assert span(finding) == (0, 0)
        assert judge("retained-graph", WORK, records=[note]).severity is Severity.INFO

    def test_a_gradient_penalty_is_no_retained_graph(self, judge):
        operators = [
            op(self.NODE, 12, 6 * MS),
            op("aten::addmm", 4, MS),
            op("TanhBackward0Backward0", 4, MS),
        ]
        assert judge("retained-graph", WORK, trace={"operators": operators}) is None

    def test_a_graph_kept_for_a_gradient_penalty_is_no_news(self, judge):
        note = Note(step=50, name="retained_graph", value=True)
        operators = [op("TanhBackward0Backward0", 4, MS)]
        trace = {"operators": operators}
        assert judge("retained-graph", WORK, trace=trace, records=[note]) is None

    def test_a_backward_that_gets_slower(self, judge):
        backward = [MS + step * 100 * US for step in range(80)]
        finding = judge("retained-graph", {"backward": backward}, steps=80)
        assert "its graph grows" in finding.title

    def test_a_backward_that_gets_slower_without_a_graph_that_stays_is_something_else(self, judge):
        backward = [MS + step * 100 * US for step in range(80)]
        note = Note(step=3, name="kept_graphs", value=False)
        phases = {"backward": backward}
        found = judge("retained-graph", phases, steps=80, records=[note])
        assert isinstance(found, Abstained)
        (slower,) = judge("memory-growth", phases, steps=80, records=[note]).where
        assert slower.phase == "backward"


class TestRecompilation:
    def test_compilations_after_the_warm_up_are_spread_over_all_steps(self, judge):
        finding = judge(
            "recompilation",
            {"forward": every(20, 110 * MS, 10 * MS, first=19)},
            flags=every(20, StepFlag.COMPILED, first=19),
        )
        assert finding.evidence["compiled_steps_count"] == 5
        assert span(finding) == (3_600 * US, 6 * MS)

    def test_dynamos_own_timing_says_it_where_every_step_compiles(self, judge):
        took = [Note(step=step, name="compile_ns", value=30 * MS) for step in range(100)]
        phases, flags = {"forward": 40 * MS}, [StepFlag.COMPILED] * 100
        finding = judge("recompilation", phases, flags=flags, records=took)
        assert finding.evidence["compiling_ns"] == 30 * MS
        # Without it nothing tells a step from one that compiles nothing.
        assert isinstance(judge("recompilation", phases, flags=flags), Abstained)

    def test_profiled_steps_are_taken_to_have_compiled_like_the_others(self, judge):
        flags = every(20, StepFlag.COMPILED, first=19)
        forward = every(20, 110 * MS, 10 * MS, first=19)
        flags[39] |= StepFlag.PROFILED
        forward[39] = 1_000 * MS
        finding = judge("recompilation", {"forward": forward}, flags=flags)
        assert span(finding) == (3_600 * US, 6 * MS)

    def test_one_is_no_habit(self, judge):
        flags = every(100, StepFlag.COMPILED, first=19)
        assert judge("recompilation", WORK, flags=flags) is None

    def test_validation_compiles_for_itself(self, judge):
        flags = every(20, StepFlag.COMPILED | StepFlag.VALIDATION, first=19)
        assert judge("recompilation", WORK, flags=flags) is None


class TestStepTimeJitter:
    def test_spikes_at_regular_distances_have_a_cause(self, judge):
        finding = judge("step-time-jitter", {"forward": every(20, 60 * MS, 10 * MS, first=7)})
        assert finding.severity is Severity.WARNING
        assert finding.evidence["steps_between_count"] == 20
        assert span(finding) == (2_250 * US, 2_500 * US)

    def test_irregular_ones_are_a_fact_at_most(self, judge):
        forward = [60 * MS if step in (3, 11, 80) else 10 * MS for step in range(100)]
        assert judge("step-time-jitter", {"forward": forward}).severity is Severity.INFO

    def test_unless_the_garbage_collector_was_seen_in_them(self, judge):
        finding = judge("step-time-jitter", collecting(3, 11, 80), parts=IN_BACKWARD)
        assert finding.severity is Severity.WARNING
        assert "gc.freeze()" in finding.change
        assert finding.where == (Where(phase="garbage_collection", name="backward"),)
        assert span(finding) == (round(0.8 * 1_350 * US), round(1.2 * 1_350 * US))

    def test_regular_collections_are_told_however_little_they_take(self, judge):
        rare = every(40, 12 * MS, first=7)
        finding = judge("step-time-jitter", {"forward": 20 * MS, "garbage_collection": rare})
        assert finding.evidence["collecting_per_step_ns"] == 360 * US
        chance = [12 * MS if step in (3, 11, 80) else 0 for step in range(100)]
        found = judge("step-time-jitter", {"forward": 20 * MS, "garbage_collection": chance})
        assert found is None

    def test_collections_in_steps_without_marks_count(self, judge):
        # Every epoch's first step is marked; here it is the one that collects.
        more = unmarked(200, phase_ns={"garbage_collection": 15 * MS})
        finding = judge("step-time-jitter", collecting(3, 11, 80), records=[more])
        assert finding.evidence["collecting_per_step_ns"] == (3 * 45 + 15) * MS // 300
        assert finding.evidence["collections_count"] == 4

    def test_what_follows_a_collection_may_go_with_it(self, judge):
        after = [17 * MS if step in (3, 11, 80) else 10 * MS for step in range(100)]
        finding = judge("step-time-jitter", {**collecting(3, 11, 80), "forward": after})
        assert finding.saving_ns.high == max(round(1.2 * 1_350 * US), (3 * 45 + 3 * 7) * MS // 100)

    def test_a_call_of_the_collector_that_was_seen_is_to_be_taken_out(self, judge):
        call = LineCount("other", "t.py", 9, "on_train_batch_end", "gc.collect()", None, None, 3)
        seen = HostLines(90, (call,), {"other": 3, "forward": 87})
        notes = [Note(step=90, name=NOTE, value=seen)]
        finding = judge("step-time-jitter", collecting(3, 11, 80), records=notes)
        assert finding.change is None
        assert "on_train_batch_end calls gc.collect() (t.py:9)" in finding.advice
        assert finding.where[0].line == 9

    def test_a_spike_of_the_machine_is_not_the_collectors(self, judge):
        forward = [60 * MS if step == 11 else 10 * MS for step in range(100)]
        finding = judge("step-time-jitter", {**collecting(3, 50, 80), "forward": forward})
        assert span(finding) == (round(0.8 * 1_350 * US), round(1.2 * 1_350 * US))

    def test_a_single_full_collection_is_no_rate(self, judge):
        assert judge("step-time-jitter", collecting(30)) is None

    def test_a_burst_is_no_rhythm(self, judge):
        forward = [60 * MS if 40 <= step < 46 else 10 * MS for step in range(100)]
        finding = judge("step-time-jitter", {"forward": forward})
        assert finding.severity is Severity.INFO
        assert "steps_between_count" not in finding.evidence

    def test_waits_and_callbacks_are_other_findings_business(self, judge):
        callbacks = every(20, 60 * MS, MS, first=7)
        assert judge("step-time-jitter", {**WORK, "callbacks": callbacks}) is None


class TestAnomalyDetection:
    def test_costs_by_the_nodes_of_the_graph(self, judge):
        name = "autograd::engine::evaluate_function: TanhBackward0"
        finding = judge(
            "anomaly-detection-on",
            WORK,
            trace={"operators": [op(name, 40, MS)]},
            trainer={"detect_anomaly": True},
        )
        assert span(finding) == (1_600 * US, 4 * MS)
        assert finding.change == "Trainer(..., detect_anomaly=False)"

    def test_the_cost_is_read_off_the_usual_operator_and_the_searches(self, judge):
        engine = "autograd::engine::evaluate_function: "
        operators = [
            op(f"{engine}TanhBackward0", 20, MS),
            op("aten::tanh", 20, 2 * MS),
            op(f"{engine}AddmmBackward0", 4, MS),
            op("aten::addmm", 4, 8 * MS),
            op("aten::isnan", 24, 2_400 * US),
        ]
        finding = judge(
            "anomaly-detection-on",
            WORK,
            trace={"operators": operators},
            trainer={"detect_anomaly": True},
        )
        # 12 nodes at 100 us as tanh shows them, and 1.2 ms of searching.
        assert span(finding) == (round(0.8 * 2_400 * US), round(1.5 * 2_400 * US))

    def test_hides_what_other_rules_would_say_of_small_operators(self, judge):
        for rule in ("host-bound", "host-sync"):
            outcome = judge(rule, WORK, trainer={"detect_anomaly": True}, trace={"operators": []})
            assert "anomaly detection is on" in outcome.reason

    def test_is_told_by_a_note_too_and_silent_when_off(self, judge):
        on = judge(
            "anomaly-detection-on", WORK, records=[Note(step=0, name="anomaly_mode", value=True)]
        )
        assert on.severity is not Severity.INFO
        assert judge("anomaly-detection-on", WORK, trainer={"detect_anomaly": False}) is None
        assert isinstance(judge("anomaly-detection-on", WORK), Abstained)
