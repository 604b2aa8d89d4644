"""The texts of the installed torch on why it compiled again: each is provoked, and read back."""

import gc

import pytest
import torch

from lightning_gpuprof.adapters.dynamo import CompileLog
from lightning_gpuprof.adapters.guard_reasons import parse_reason
from lightning_gpuprof.records.lines import GuardCause


@pytest.fixture(autouse=True)
def _no_code_compiled_before():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(function, **options):
    return torch.compile(function, backend="eager", **options)


def double(x):
    return x * 2


def scaled(x, n):
    return x * n


class Counting(torch.nn.Module):
    """Counts its calls with an integer."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x + 0.5 * self.calls


class Holder(torch.nn.Module):
    """Holds a counting module."""

    def __init__(self):
        super().__init__()
        self.inner = Counting()

    def forward(self, x):
        return self.inner(x)


class Dropping(torch.nn.Module):
    """Drops values in training alone."""

    def forward(self, x):
        return torch.nn.functional.dropout(x, training=self.training)


class Scaled(torch.nn.Module):
    """Multiplies by a factor."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return x * self.factor


def sizes():
    run = compiled(double, dynamic=False)
    run(torch.rand(3, 4))
    run(torch.rand(3, 5))


class Layer(torch.nn.Module):
    """A layer without a loop."""

    def __init__(self, width):
        super().__init__()
        self.lin = torch.nn.Linear(4, width)

    def forward(self, x):
        return self.lin(x)


def layers_of_two_sizes():
    for width in (3, 5):
        layer = Layer(width)
        layer.compile(backend="eager")
        layer(torch.rand(2, 4))


def a_branch_on_a_size():
    run = compiled(lambda x: x + 1 if x.shape[0] > 10 else x - 1, dynamic=True)
    run(torch.rand(5))
    run(torch.rand(20))


def ranks():
    run = compiled(double)
    run(torch.rand(3))
    run(torch.rand(3, 1))


def strides():
    run = compiled(double, dynamic=False)
    run(torch.rand(3, 4))
    run(torch.rand(4, 3).t())


def dtypes():
    run = compiled(double)
    run(torch.rand(3))
    run(torch.rand(3).double())


def devices():
    run = compiled(double)
    run(torch.rand(3))
    run(torch.rand(3, device="meta"))


def gradients():
    run = compiled(double)
    run(torch.rand(3))
    run(torch.rand(3, requires_grad=True))


def a_counter():
    run = compiled(Counting())
    run(torch.rand(3))
    run(torch.rand(3))


def a_counter_of_a_submodule():
    run = compiled(Holder())
    run(torch.rand(3))
    run(torch.rand(3))


def a_float_attribute():
    module = Scaled(0.5)
    run = compiled(module, dynamic=False)
    run(torch.rand(3))
    module.factor = 0.25
    run(torch.rand(3))


def an_argument():
    run = compiled(scaled, dynamic=False)
    run(torch.rand(3), 2)
    run(torch.rand(3), 3)


def a_variable_of_an_outer_function():
    n = 2

    def inner(x):
        return x * n

    run = compiled(inner, dynamic=False)
    run(torch.rand(3))
    n = 3
    run(torch.rand(3))


def a_boolean():
    run = compiled(lambda x, flag: x + 1 if flag else x - 1)
    run(torch.rand(3), True)
    run(torch.rand(3), False)


def a_string():
    run = compiled(lambda x, way: x + 1 if way == "up" else x - 1)
    run(torch.rand(3), "up")
    run(torch.rand(3), "down")


def a_value_that_is_missing():
    run = compiled(lambda x, y: x + 1 if y is None else x + y)
    run(torch.rand(3), None)
    run(torch.rand(3), torch.rand(3))


def training_mode():
    module = Holder()
    module.inner = Dropping()
    run = compiled(module)
    run(torch.rand(3))
    module.eval()
    run(torch.rand(3))


def lists():
    run = compiled(lambda xs: sum(xs))
    run([torch.rand(3)] * 2)
    run([torch.rand(3), torch.rand(3), torch.rand(3)])


def keys():
    run = compiled(lambda batch: sum(batch.values()))
    run({"a": torch.rand(3)})
    run({"a": torch.rand(3), "b": torch.rand(3)})


def another_function():
    run = compiled(lambda x, f: f(x))
    run(torch.rand(3), torch.sin)
    run(torch.rand(3), torch.cos)


def another_class():
    run = compiled(lambda x, holder: holder.forward(x))
    run(torch.rand(3), Scaled(2.0))
    run(torch.rand(3), torch.nn.ReLU())


def gradient_mode():
    run = compiled(double)
    run(torch.rand(3))
    with torch.no_grad():
        run(torch.rand(3))


def inference_tensors():
    run = compiled(double)
    run(torch.rand(3))
    with torch.inference_mode():
        tensor = torch.rand(3)
    run(tensor)


def backends():
    def other(graph, inputs):
        return graph.forward

    compiled(double)(torch.rand(3))
    torch.compile(double, backend=other)(torch.rand(3))


PROVOKED = [
    (sizes, GuardCause.SIZE, "x.shape[1]"),
    (layers_of_two_sizes, GuardCause.PARAMETER, "self.lin.bias.shape[0]"),
    (a_branch_on_a_size, GuardCause.SIZE_CONDITION, "x.shape[0]"),
    (ranks, GuardCause.RANK, "x"),
    (strides, GuardCause.STRIDES, "x"),
    (dtypes, GuardCause.DTYPE, "x"),
    (devices, GuardCause.DEVICE, "x"),
    (gradients, GuardCause.GRADIENT, "x"),
    (a_counter, GuardCause.ATTRIBUTE, "self.calls"),
    (a_counter_of_a_submodule, GuardCause.ATTRIBUTE, "self.inner.calls"),
    (a_float_attribute, GuardCause.ATTRIBUTE, "self.factor"),
    (an_argument, GuardCause.NUMBER, "n"),
    (a_variable_of_an_outer_function, GuardCause.NUMBER, "n"),
    (a_boolean, GuardCause.FLAG, "flag"),
    (a_string, GuardCause.FLAG, "way"),
    (a_value_that_is_missing, GuardCause.FLAG, "y"),
    (training_mode, GuardCause.FLAG, "self.inner.training"),
    (lists, GuardCause.CONTAINER, "xs"),
    (keys, GuardCause.CONTAINER, "batch"),
    (another_function, GuardCause.OBJECT, "f"),
    (another_class, GuardCause.OBJECT, "holder"),
    (gradient_mode, GuardCause.MODE, ""),
    (inference_tensors, GuardCause.MODE, "x"),
    (backends, GuardCause.BACKEND, ""),
]


@pytest.mark.parametrize(
    ("provoke", "cause", "subject"), PROVOKED, ids=lambda v: getattr(v, "__name__", "")
)
def test_torchs_reason_tells_what_differed(provoke, cause, subject):
    log = CompileLog()
    provoke()
    (again,) = log.compiled_again()
    guard = parse_reason(again.reason)
    assert (guard.cause, guard.subject) == (cause, subject), again.reason
    assert again.took_ns > 0
    assert log.compiled_again() == []


def test_a_guard_names_the_number_it_expected_and_the_line_that_made_it():
    log = CompileLog()
    a_counter()
    (again,) = log.compiled_again()
    guard = parse_reason(again.reason)
    assert (guard.reason, guard.value) == ("self.calls == 0", "0")
    file, line, function = guard.stack[-1]
    assert (file, function) == (__file__, "forward")
    assert open(file).read().splitlines()[line - 1].strip() == "self.calls += 1"
    assert again.function[2] == "forward"


def test_an_object_that_was_freed_drops_its_code():
    log = CompileLog()
    run = compiled(lambda x, module: module.forward(x) * 2)
    for _ in range(2):
        module = Scaled(2.0)
        run(torch.rand(3), module)
        del module
        gc.collect()
    causes = {parse_reason(again.reason).cause for again in log.compiled_again()}
    assert causes <= {GuardCause.FREED}


def test_the_limit_at_which_torch_gives_up_is_read_with_its_function():
    log = CompileLog()
    with torch._dynamo.config.patch(recompile_limit=3):
        run = compiled(Counting())
        for _ in range(6):
            run(torch.rand(3))
    again = log.compiled_again()
    assert [entry.limit for entry in again] == ["", "", "recompile_limit"]
    assert {entry.function[2] for entry in again} == {"forward"}


def test_another_compilation_is_read_though_torch_lists_its_newest_64_alone():
    log = CompileLog()
    with torch._dynamo.config.patch(recompile_limit=100):
        run = compiled(Counting())
        for count in range(70):
            run(torch.rand(3))
            assert len(log.compiled_again()) == (count > 0)


@pytest.mark.parametrize(
    ("text", "cause", "subject"),
    [
        # torch 2.2 to 2.5
        ("L['self'].training == True", GuardCause.FLAG, "self.training"),
        ("___check_obj_id(L['self'].training, 94)", GuardCause.OBJECT, "self.training"),
        (
            "tensor 'L['x']' size mismatch at index 0. expected 4, actual 9",
            GuardCause.SIZE,
            "x.shape[0]",
        ),
        ("2 <= L['x'].size()[0]", GuardCause.SIZE_CONDITION, "x.shape[0]"),
        ("Eq(L['x'].size()[0], L['y'].size()[1])", GuardCause.SIZE_CONDITION, "x.shape[0]"),
        ("G['N'] == 3", GuardCause.NUMBER, "N"),
        ("L['n'] <= 64", GuardCause.NUMBER, "n"),
        ("a text of a later torch", GuardCause.OTHER, ""),
        ("", GuardCause.OTHER, ""),
    ],
)
def test_texts_of_other_versions_are_read_as_far_as_they_are_known(text, cause, subject):
    assert parse_reason(f"0/3: {text}")[:2] == (cause, subject)
