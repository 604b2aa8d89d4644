"""When each change applies, and what it does to a program."""

from types import SimpleNamespace

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from lightning_gpuprof.records.schema import Device, Loader
from lightning_gpuprof.records.trials import ChangedSettings
from lightning_gpuprof.trials import blocks
from lightning_gpuprof.trials.change import Change, changes, snippet
from lightning_gpuprof.trials.changes import precision

MS = 1_000_000
WORK = {"data_wait": 5 * MS, "forward": 5 * MS, "optimizer_step": 2 * MS, "logging": MS}
ADAM = {"class": "Adam", "package": "torch"}
GPU = Device(type="cuda", name="A100", capability="8.0", total_bytes=2**36)
GPU_OF_OLD = Device(type="cuda", name="V100", capability="7.0")


@pytest.fixture
def values(analyze):
    def ask(name, phases=None, *, loader=None, model=None, trainer=None, **start):
        loader = {"num_workers": 0, "batch_size": 32} | (loader or {})
        trainer = {"loggers": ["CSVLogger"], "log_every_n_steps": 10} | (trainer or {})
        run = analyze(
            phases or WORK,
            loader=Loader(**loader) if loader.get("batch_size") else None,
            model={"optimizers": [ADAM]} | (model or {}),
            trainer=trainer,
            **{"torch_threads": 4} | start,
        )
        return changes()[name].values(run)

    return ask


def test_every_change_says_what_it_does_and_where(values):
    assert len(changes()) == 17
    for name, change in changes().items():
        assert change.name == name
        assert change.place or change.write or change.computed
        found = values(name)
        assert found
        assert isinstance(found, list | str)


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("num_workers", {"cpu_count": 4}, [1, 2, 4]),
        ("num_workers", {"loader": {"num_workers": 2, "persistent_workers": True}}, [4, 0, 1]),
        ("num_workers", {"phases": {"forward": MS}}, "the wait for data is 0% of a step"),
        ("num_workers", {"loader": {"shares": "the model"}}, "the data set reads the model, of"),
        ("num_workers", {"loader": {"batch_size": 0}}, "its batches come from no DataLoader"),
        ("prefetch_factor", {}, "there are no workers"),
        ("prefetch_factor", {"loader": {"num_workers": 1, "prefetch_factor": 2}}, [8]),
        ("flush_denormal", {}, [True]),
        ("flush_denormal", {"torch_settings": {"flush_denormal": True}}, "it is on"),
        ("flush_denormal", {"device": GPU}, "the model runs on the GPU"),
        ("pin_memory", {}, "there is no GPU"),
        ("pin_memory", {"device": GPU, "loader": {"pin_memory": True}}, "it is on"),
        ("pin_memory", {"device": GPU, "loader": {"pin_memory": False}}, [True]),
        ("cached_batches", {}, [16]),
        ("torch_threads", {"cpu_count": 4}, [2, 1]),
        ("torch_threads", {"cpu_count": 1, "torch_threads": 1}, "there is a single core"),
        ("torch_threads", {"device": GPU}, "the model runs on the GPU"),
        ("optimizer", {}, ["fused", "foreach"]),
        ("optimizer", {"device": GPU}, ["fused"]),
        ("optimizer", {"model": {"optimizers": [ADAM | {"fused": True}]}}, "it is fused"),
        (
            "optimizer",
            {"model": {"optimizers": [ADAM | {"package": "mine"}]}},
            "its optimizer is not one of",
        ),
        ("optimizer", {"model": {"optimizers": [ADAM | {"class": "RMSprop"}]}}, ["foreach"]),
        ("log_every_n_steps", {}, [50]),
        ("log_every_n_steps", {"trainer": {"log_every_n_steps": 50}}, [200]),
        ("log_every_n_steps", {"trainer": {"loggers": []}}, "there is no logger"),
        ("precision", {"device": GPU}, ["bf16-mixed"]),
        ("precision", {"device": GPU, "trainer": {"precision": "16-mixed"}}, ["bf16-mixed"]),
        ("precision", {"trainer": {"precision": "bf16-mixed"}}, "it trains with bf16-mixed"),
        ("matmul_precision", {}, "there is no NVIDIA GPU"),
        ("matmul_precision", {"device": GPU_OF_OLD}, "there is no NVIDIA GPU"),
        (
            "matmul_precision",
            {"device": GPU, "torch_settings": {"float32_matmul_precision": "highest"}},
            ["high"],
        ),
        ("compile", {"model": {"compiled": True}}, "it is compiled"),
        ("batch_size", {}, [64, 128]),
        ("detect_anomaly", {}, "it is off"),
        ("detect_anomaly", {"trainer": {"detect_anomaly": True}}, [False]),
        ("without_loggers", {}, [True]),
        ("without_loggers", {"trainer": {"loggers": []}}, "there is no logger"),
        ("without_callback", {}, "no callback was timed"),
    ],
)
def test_a_change_is_tried_where_it_can_matter(values, monkeypatch, name, given, expected):
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/g++")
    found = values(name, **given)
    if isinstance(expected, list):
        assert found == expected
    else:
        assert found.startswith(expected)


@pytest.mark.parametrize(("flags", "tried"), [("fma amx_bf16", True), ("fma avx2", False)])
def test_a_processor_without_bfloat16_is_not_asked_for_it(
    values, monkeypatch, tmp_path, flags, tried
):
    (tmp_path / "cpuinfo").write_text(f"flags : {flags}")
    monkeypatch.setattr(precision, "CPUINFO", tmp_path / "cpuinfo")
    assert (values("precision") == ["bf16-mixed"]) is tried


def test_without_a_compiler_nothing_is_compiled(values, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert values("compile").startswith("torch.compile finds no compiler")


def test_larger_batches_take_the_place_of_accumulated_ones(analyze):
    loader = Loader(num_workers=0, batch_size=32)
    run = analyze(WORK, loader=loader, trainer={"accumulate_grad_batches": 4})
    assert changes()["batch_size"].settings(64, run) == ChangedSettings(
        data_loader={"batch_size": 64}, trainer={"accumulate_grad_batches": 2}
    )


@pytest.mark.parametrize(
    ("name", "value", "paste"),
    [
        ("num_workers", 4, "DataLoader(..., num_workers=4, persistent_workers=True)"),
        ("pin_memory", True, "DataLoader(..., pin_memory=True)"),
        ("optimizer", "fused", "optimizer(..., fused=True)"),
        ("torch_threads", 2, "torch.set_num_threads(2)"),
        ("compile", True, "for part in model.children(): part.compile()"),
        ("precision", "bf16-mixed", "Trainer(..., precision='bf16-mixed')"),
    ],
)
def test_a_change_can_be_pasted(analyze, name, value, paste):
    assert snippet(changes()[name].settings(value, analyze(WORK))) == paste


def loader_of(count=10, **options):
    return DataLoader(TensorDataset(torch.arange(count)), batch_size=2, **options)


@pytest.mark.parametrize(
    ("made", "changed", "size"),
    [
        ({}, {"num_workers": 1, "persistent_workers": True, "pin_memory": False}, 2),
        (
            {"num_workers": 2, "persistent_workers": True, "timeout": 9},
            {"num_workers": 0, "persistent_workers": False},
            2,
        ),
        ({}, {"batch_size": 4}, 4),
    ],
)
def test_a_loader_gets_what_is_changed_and_loads_the_same(made, changed, size):
    loader = loader_of(**made)
    blocks.change_loader(loader, ChangedSettings(data_loader=changed))
    assert {name: getattr(loader, name) for name in changed} == changed
    assert loader.prefetch_factor == (2 if loader.num_workers else None)
    batches = [list(range(at, min(at + size, 10))) for at in range(0, 10, size)]
    assert [batch[0].tolist() for batch in loader] == batches


class Endless(IterableDataset):
    def __iter__(self):
        return iter(range(3))


def test_the_first_batches_come_again_in_epochs_of_the_same_length():
    loader = loader_of()
    blocks.change_loader(loader, ChangedSettings(cached_batches=2))
    for _ in range(2):
        assert [b[0].tolist() for b in loader] == [[0, 1], [2, 3], [0, 1], [2, 3], [0, 1]]
    assert isinstance(loader, DataLoader)
    endless = DataLoader(Endless(), batch_size=None)
    blocks.change_loader(endless, ChangedSettings(cached_batches=2))
    iterator = iter(endless)
    assert [next(iterator) for _ in range(5)] == [0, 1, 0, 1, 0]


@pytest.mark.parametrize("kind", ["fused", "foreach"])
def test_an_optimizer_takes_the_other_form_and_learns_the_same(kind):
    learnt = []
    for settings in (ChangedSettings(), ChangedSettings(optimizer={kind: True})):
        weight = torch.nn.Parameter(torch.ones(3))
        optimizer = torch.optim.Adam([weight], lr=0.1)
        blocks.change_training(SimpleNamespace(optimizers=[optimizer]), None, settings)
        weight.sum().backward()
        optimizer.step()
        learnt.append(weight.detach())
        assert bool(optimizer.param_groups[0][kind]) is bool(settings)
    torch.testing.assert_close(*learnt)


def test_lines_run_as_they_are_pasted(monkeypatch):
    model = torch.nn.Sequential(torch.nn.Linear(1, 1))
    compiled = []
    monkeypatch.setattr(torch.nn.Linear, "compile", lambda self: compiled.append(self))
    threads = torch.get_num_threads()
    lines = ("torch.set_num_threads(2)", "for part in model.children(): part.compile()")
    try:
        blocks.change_training(SimpleNamespace(optimizers=[]), model, ChangedSettings(lines=lines))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert compiled == list(model)


def test_a_change_without_phases_may_save_anything(analyze):
    run = analyze({"forward": 3 * MS, "logging": MS})
    plain = {"name": "a", "values": lambda run: [1]}
    assert Change(**plain).share(run) == 1
    assert changes()["log_every_n_steps"].share(run) == 0.25
