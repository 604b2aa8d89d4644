"""What the program's batch-transfer hooks do shows in a trace as theirs."""

import torch
from lightning.pytorch.demos.boring_classes import BoringModel

from lightning_gpuprof.callbacks.phase_timer import PhaseTimer


class Augments(BoringModel):
    def on_after_batch_transfer(self, batch, dataloader_idx):
        return batch + torch.randn(1).item()


def spans(session_of, model, **options):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        session_of(model, PhaseTimer(), limit_train_batches=2, **options)
    named = [one for one in profiler.events() if one.name.endswith("_batch_transfer")]
    return [(one.name, {inside.name for inside in one.cpu_children}) for one in named]


def test_a_hook_of_the_programs_own_has_a_span_around_its_operators(session_of):
    found = spans(session_of, Augments())
    assert [name for name, _ in found] == ["on_after_batch_transfer"] * 2
    assert {"aten::item", "aten::add"} <= found[0][1]


def test_hooks_that_are_lightnings_have_none(session_of):
    assert spans(session_of, BoringModel()) == []


def test_no_span_is_opened_where_nothing_records(session_of, monkeypatch):
    opened = []
    monkeypatch.setattr("lightning_gpuprof.adapters.profiler.record_function", opened.append)
    session_of(Augments(), PhaseTimer(), limit_train_batches=2)
    assert opened == []
