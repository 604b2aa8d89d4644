import dis
import json
import multiprocessing.connection
import selectors
import sys
import threading
from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset
from lightning.pytorch.loggers.logger import DummyLogger
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader

from lightning_gpuprof.recorders.collective_waits import CollectiveWaits
from lightning_gpuprof.recorders.sampling.pacing import SampleTiming
from lightning_gpuprof.recorders.sampling.stack_lines import (
    LONG_NS,
    ThreadPlace,
    attribute_sample,
    line_counts,
    line_of,
    place_in_loop,
)
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.runtime.places import package_of

found = {}


def look(name):
    found[name] = place_in_loop(sys._getframe(1))


def test_outside_of_training_there_is_no_place():
    look("here")
    assert found["here"] is None


class Looks(torch.nn.Module):
    def forward(self, x):
        look("module")
        return x


class Runs(Callback):
    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        pl_module.again(batch)


class LooksAgain(torch.nn.Module):
    def forward(self, x):
        look("run")
        return x


class Encodes(json.JSONEncoder):
    def default(self, o):
        return str(o)


def watch(module, args, output):
    helps()


def helps():
    look("watched")


class Model(BoringModel):
    def __init__(self):
        super().__init__()
        self.looks = Looks()
        self.again = LooksAgain()
        self.looks.register_forward_hook(watch)

    def training_step(self, batch, batch_idx):
        look("step")
        self.looks(batch)
        self.log(Name("loss"), 0.0)
        with threading.Condition(Lock()):
            pass
        in_collective(blocks)()
        # A frame of Python's own, innermost: what the user's line is in.
        json.dumps(Frame(), cls=Encodes)
        return super().training_step(batch, batch_idx)

    def on_before_optimizer_step(self, optimizer):
        look("hook")


def in_collective(call):
    """Wrap a function as a collective operation in which ranks wait."""
    recorder = CollectiveWaits()
    recorder._part, recorder._thread = SimpleNamespace(timed=True), threading.get_ident()
    recorder._begin = recorder._end = lambda: None
    return recorder._timed(call)


def blocks():
    found["collective"] = place_in_loop(sys._getframe(1))  # past this, which stands for torch


class Name(str):
    def __contains__(self, part):
        found["logs"] = place_in_loop(sys._getframe(1))  # past this method, in self.log
        return super().__contains__(part)


class Lock:
    def acquire(self):
        pass

    release = acquire

    def __enter__(self):
        found["waits"] = place_in_loop(sys._getframe(1))  # past this method, in `threading`

    def __exit__(self, *_):
        pass


class Frame:
    def __str__(self):
        frame = sys._getframe(2)  # past `default`, in the encoder
        found["called"] = place_in_loop(frame)
        return ""


class Data(RandomDataset):
    def __getitem__(self, index):
        look("data")
        return super().__getitem__(index)


class GoesBack(BoringModel):
    """A hook on a gradient looks, and so does what is computed again for the backward pass."""

    def training_step(self, batch, batch_idx):
        x = self.layer(batch)
        x.register_hook(self.sees)
        return checkpoint(self.recomputed, x, use_reentrant=False).sum()

    def sees(self, gradient):
        look("gradient")

    def recomputed(self, x):
        look("again")
        return x.square()


def fit(model, tmp_path):
    found.clear()
    trainer = Trainer(
        max_steps=1,
        logger=False,
        limit_val_batches=0,
        callbacks=[Runs()] if hasattr(model, "again") else [],
        default_root_dir=tmp_path,
    )
    trainer.fit(model, DataLoader(Data(32, 8)))
    return found


@pytest.fixture
def places(tmp_path):
    return fit(Model(), tmp_path)


def test_a_hook_on_a_gradient_is_told_from_what_is_computed_again(tmp_path):
    places = fit(GoesBack(), tmp_path)
    gradient, again = places["gradient"], places["again"]
    assert (gradient.phase, gradient.function, gradient.kind) == (Phase.BACKWARD, "sees", None)
    assert (again.phase, again.function, again.kind) == (Phase.BACKWARD, "recomputed", "model")


def test_the_phase_is_that_of_the_hook_around(places):
    assert {name: at.phase for name, at in places.items()} == {
        "data": Phase.DATA_WAIT,
        "step": Phase.FORWARD,
        "module": Phase.FORWARD,
        "watched": Phase.FORWARD,
        "called": Phase.FORWARD,
        "logs": Phase.LOGGING,
        "waits": Phase.FORWARD,
        "collective": Phase.FORWARD,
        "hook": Phase.OTHER,
        "run": Phase.CALLBACKS,
    }


def test_the_line_is_the_innermost_of_the_users_own(places):
    functions = {name: at.function for name, at in places.items()}
    assert functions == {
        "data": "__getitem__",
        "step": "training_step",
        "module": "forward",
        "watched": "helps",
        "called": "training_step",
        "logs": "training_step",
        "waits": "training_step",
        "collective": "training_step",
        "hook": "on_before_optimizer_step",
        # What the callback runs is the model's, that it runs it is the callback's.
        "run": "on_train_batch_end",
    }


def test_what_a_line_is_in_is_named_with_whose_it_is(places):
    assert (places["called"].callee, places["called"].kind) == ("json.dumps", "python")
    assert (places["step"].callee, places["step"].kind) == (None, None)
    assert (places["logs"].callee, places["logs"].kind) == ("lightning.log", "log")
    assert places["waits"].kind == "wait"
    assert places["collective"].kind == "collective"
    # In a hook on a module, not in the module itself.
    assert (places["watched"].kind, places["module"].kind) == ("hook", None)


SITE = "/env/lib/python3.12/site-packages"
LOOP = f"{SITE}/lightning/pytorch/loops/training_epoch_loop.py", "advance"
LIBRARY = f"{SITE}/forecasting/module.py"


HAS_QUALIFIED_NAMES = sys.version_info >= (3, 11)


def stack(*calls):
    """Return the innermost frame of calls, given from the outermost one on."""
    frame = None
    for file, name, *known in calls:
        qualified = {"co_qualname": name} if HAS_QUALIFIED_NAMES else {}
        code = (lambda: None).__code__.replace(co_filename=file, co_name=name, **qualified)
        space = {"__name__": file.split("site-packages/")[-1].split("/")[0]}
        space |= dict(*known)
        frame = SimpleNamespace(f_code=code, f_back=frame, f_lineno=1, f_lasti=-1, f_globals=space)
    return frame


@pytest.mark.parametrize(("function", "kind"), [("training_step", "model"), ("blur", "python")])
def test_the_step_of_a_librarys_module_is_the_model(function, kind):
    frame = stack(LOOP, ("/home/me/train.py", "training_step"), (LIBRARY, function))
    assert (place_in_loop(frame).file, place_in_loop(frame).kind) == ("/home/me/train.py", kind)


OWN = "/home/me/train.py", "forward"
GPT = f"{SITE}/transformers/modeling_gpt2.py"
CALLS = f"{SITE}/torch/nn/modules/module.py", "_call_impl"
PIPE = multiprocessing.connection.__file__, "poll", {"__name__": "multiprocessing.connection"}


@pytest.mark.parametrize(
    ("inner", "kind"),
    [
        ([(GPT, "wrapper"), CALLS, (GPT, "make_mask")], "model"),
        ([(GPT, "wrapper"), (f"{SITE}/torch/nn/functional.py", "cross_entropy")], "torch"),
        ([(GPT, "wrapper"), (GPT, "rotate", {"torch": torch})], "torch"),
        ([(GPT, "wrapper"), (f"{SITE}/torch/serialization.py", "load")], "python"),
        ([(GPT, "tokenize")], "python"),
        ([(GPT, "tokenize", {"torch": torch}), (f"{SITE}/regex/regex.py", "sub")], "python"),
        ([PIPE, (selectors.__file__, "select")], "workers"),
        ([(f"{SITE}/torchrl/envs.py", "step"), PIPE, (threading.__file__, "wait")], "workers"),
        ([(f"{SITE}/torch/utils/data/dataloader.py", "_try_get_data"), PIPE], "torch"),
    ],
)
def test_what_a_library_computes_with_torch_is_the_models_and_pipes_are_to_workers(inner, kind):
    at = place_in_loop(stack(LOOP, OWN, *inner))
    assert (at.file, at.kind) == (OWN[0], kind)
    assert (at.callee == "multiprocessing.poll") == (kind == "workers")


@pytest.mark.parametrize(
    ("module", "file"),
    [("torch.made.propagate", OWN[0]), ("mine.made.propagate", "/tmp/me_pyg/made.py")],
)
def test_a_module_that_an_installed_package_wrote_is_that_packages(module, file):
    made = "/tmp/me_pyg/made.py", "propagate", {"__name__": module}
    assert place_in_loop(stack(LOOP, OWN, CALLS, made)).file == file


@pytest.mark.parametrize(
    ("file", "function", "phase"),
    [
        ("pytorch/trainer/call.py", "_call_lightning_module_hook", Phase.VALIDATION),
        ("pytorch/loops/fetchers.py", "__next__", Phase.VALIDATION),
        ("pytorch/strategies/strategy.py", "batch_to_device", Phase.VALIDATION),
        ("pytorch/trainer/call.py", "_call_callback_hooks", Phase.CALLBACKS),
        ("pytorch/loggers/tensorboard.py", "log_metrics", Phase.LOGGING),
    ],
)
def test_in_a_validation_hooks_of_the_module_and_batches_are_validation(file, function, phase):
    evaluation = f"{SITE}/lightning/pytorch/loops/evaluation_loop.py", "run"
    called = (
        (f"{SITE}/lightning/{file}", function),
        ("/home/me/train.py", "plot"),
        (LIBRARY, "draw"),
    )
    at = place_in_loop(stack(LOOP, evaluation, *called))
    assert (at.phase, at.function) == (phase, "plot")
    assert place_in_loop(stack(LOOP, *called)).phase is not Phase.VALIDATION


def test_a_module_that_torch_compile_wrote_is_torchs(monkeypatch, tmp_path):
    assert package_of("/home/me/torchinductor_me/ab/cab.py") == "torch"
    assert package_of(str(tmp_path / "cache" / "ab" / "cab.py")) == ""

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    assert package_of(str(tmp_path / "cache" / "ab" / "another.py")) == "torch"
    assert package_of(str(tmp_path / "train.py")) == ""


def test_a_jump_without_a_line_has_that_of_the_instruction_before_it():
    here = sys._getframe()
    frame = SimpleNamespace(f_lineno=None, f_code=here.f_code, f_lasti=here.f_lasti)
    assert line_of(frame) == here.f_lineno - 1


FETCH = f"{SITE}/lightning/pytorch/loops/fetchers.py", "__next__"
PACKAGE = f"{SITE}/torchvision/datasets/folder.py", "__getitem__"
MAIN = "/home/me/train.py", "main"


EVALUATION = f"{SITE}/lightning/pytorch/loops/evaluation_loop.py"
PREDICTION = f"{SITE}/lightning/pytorch/loops/prediction_loop.py"


@pytest.mark.parametrize("loop", [EVALUATION, PREDICTION])
@pytest.mark.parametrize(
    ("file", "function", "phase"),
    [
        ("pytorch/strategies/strategy.py", "predict_step", Phase.FORWARD),
        ("pytorch/strategies/strategy.py", "validation_step", Phase.FORWARD),
        ("pytorch/loops/fetchers.py", "__next__", Phase.DATA_WAIT),
        ("pytorch/strategies/strategy.py", "batch_to_device", Phase.HOST_TO_DEVICE),
        ("pytorch/trainer/call.py", "_call_callback_hooks", Phase.CALLBACKS),
        ("pytorch/trainer/call.py", "_call_lightning_module_hook", Phase.OTHER),
    ],
)
def test_an_evaluation_outside_a_fit_has_phases_of_its_own(loop, file, function, phase):
    called = (f"{SITE}/lightning/{file}", function), ("/home/me/train.py", "work")
    at = place_in_loop(stack(MAIN, (loop, "run"), (loop, "_step"), *called))
    assert (at.phase, at.function) == (phase, "work")
    assert place_in_loop(stack(MAIN, (loop, "run"), (loop, "on_run_end"), *called)) is None


@pytest.mark.parametrize("loop", [[(EVALUATION, "run")], [LOOP]])
def test_of_a_batch_the_function_that_the_loader_called_is_named(loop):
    inner = (("/home/me/data.py", name) for name in ("collate", "parse", "split"))
    at = place_in_loop(stack(MAIN, *loop, FETCH, *inner))
    assert (at.phase, at.function, at.entry) == (Phase.DATA_WAIT, "split", "collate")


def test_a_method_that_the_loader_called_is_named_with_its_class(places):
    name = "Data.__getitem__" if HAS_QUALIFIED_NAMES else "__getitem__"
    assert places["data"].entry == name
    assert places["step"].entry is None


def test_the_argument_that_asked_for_what_torch_does_is_recorded():
    clips = f"{SITE}/lightning/pytorch/plugins/precision/precision.py", "clip_grad_by_norm"
    norm = f"{SITE}/torch/nn/utils/clip_grad.py", "clip_grad_norm_"
    assert place_in_loop(stack(MAIN, LOOP, clips, norm)).argument == "gradient_clip_val"
    assert place_in_loop(stack(MAIN, LOOP, norm)).argument is None


def test_in_a_packages_dataset_its_function_is_named_and_the_nearest_line_of_the_program():
    inner = (
        (f"{SITE}/torch/utils/data/fetch.py", "fetch"),
        PACKAGE,
        (f"{SITE}/PIL/Image.py", "open"),
    )
    at = place_in_loop(stack(MAIN, LOOP, FETCH, *inner))
    assert (at.phase, at.file, at.function) == (Phase.DATA_WAIT, MAIN[0], "torchvision.__getitem__")
    assert (at.callee, at.kind) == ("torchvision.__getitem__", "python")
    (line,) = line_counts(Counter([at]), Counter())
    assert line.in_package
    assert line.source == "# in torchvision.__getitem__"
    # Where nothing of the program is on the stack, as in a worker that was spawned.
    assert place_in_loop(stack(LOOP, FETCH, *inner)).file == PACKAGE[0]
    # What torch and Lightning do between is theirs.
    assert place_in_loop(stack(MAIN, LOOP, FETCH, inner[0])).file == ""


def work(rows, slow):
    total = 0
    for row in rows:
        twice = row * 2
        total += abs(twice)
        total %= 7
    return slow.all(total)


FIRST = work.__code__.co_firstlineno


def at_instruction(number):
    """Return the place of the so-and-so-manieth call, or of the loop's turn."""
    found = [one for one in dis.get_instructions(work) if one.opname in ("CALL", "JUMP_BACKWARD")]
    line = FIRST + (4, 5, 6)[number]
    spot = work.__code__, found[number].offset
    return ThreadPlace(Phase.FORWARD, "t.py", line, "work", "lib.abs", "python", "abs", spot)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="no check stands for more before")
@pytest.mark.parametrize(
    ("number", "after_ns", "chosen", "line", "doubted"),
    [
        (0, LONG_NS, 0, 4, False),  # so long it waited for the call that is behind it
        (0, 0, 0, 1, True),  # or it was between the function's begin and the call
        (0, 0, -1, 4, True),
        (1, LONG_NS, -1, 5, True),
        (2, 0, 0, 6, False),  # a call that is none of Python's own takes the time
    ],
)
def test_a_sample_stands_for_all_lines_since_the_last_check(
    number, after_ns, chosen, line, doubted
):
    at, doubt = attribute_sample(at_instruction(number), SampleTiming(after_ns), chosen)
    assert (at.line - FIRST, doubt) == (line, doubted)
    assert at.instruction is None
    assert at.operation == ("abs" if line == (4, 5, 6)[number] else None)


@pytest.mark.parametrize("spot", [None, (work.__code__, 0)])
def test_a_sample_that_waited_for_a_core_is_doubted(spot):
    at = ThreadPlace(Phase.FORWARD, "t.py", FIRST, "work", None, None, instruction=spot)
    at, doubted = attribute_sample(at, SampleTiming(waited_for_core=True), 0)
    assert doubted
    (line,) = line_counts(Counter({at: 3}), Counter({at: 2}))
    assert (line.count, line.doubt) == (3, 2)


class Plots(Callback):
    def on_train_epoch_end(self, trainer, pl_module):
        self.draw()

    def draw(self):
        look("callback")


class Looking(DummyLogger):
    def log_metrics(self, metrics, step=None):
        if "value_epoch" in metrics:
            look("logger")


class BetweenEpochs(BoringModel):
    def train_dataloader(self):
        look("loader")
        return super().train_dataloader()

    def on_train_epoch_end(self):
        look("hook")

    def training_step(self, batch, batch_idx):
        look("step")
        self.log("value", 1.0, on_step=True, on_epoch=True)
        return super().training_step(batch, batch_idx)


def test_between_epochs_a_place_has_the_hook_or_the_class_of_the_callback_or_logger(tmp_path):
    found.clear()
    trainer = Trainer(
        max_epochs=2, limit_train_batches=1, limit_val_batches=0, logger=Looking(),
        reload_dataloaders_every_n_epochs=1, callbacks=[Plots()], default_root_dir=tmp_path,
    )  # fmt: skip
    trainer.fit(BetweenEpochs())
    places = {name: (at.phase, at.function, at.outside, at.part) for name, at in found.items()}
    known = sys.version_info >= (3, 11)
    assert places == {
        "callback": (Phase.CALLBACKS, "draw", True, "Plots" if known else None),
        "logger": (Phase.LOGGING, "log_metrics", True, "Looking" if known else None),
        "loader": (Phase.DATA_WAIT, "train_dataloader", True, "train_dataloader"),
        "hook": (Phase.OTHER, "on_train_epoch_end", True, "on_train_epoch_end"),
        "step": (Phase.FORWARD, "training_step", False, None),
    }
