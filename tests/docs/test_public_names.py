import ast
import inspect
import re

import pytest

import lightning_gpuprof
from lightning_gpuprof.report.run_report import report

PUBLIC = {
    name: found
    for name in lightning_gpuprof.__all__
    if callable(found := getattr(lightning_gpuprof, name))
}
PUBLIC["report"] = report  # the package of this name, which calls it, may stand in its place


def section(found, title):
    """The names that a section of a docstring describes."""
    doc = inspect.cleandoc(found.__doc__ or "")
    text = re.search(rf"^{title}:\n((?: .*\n|\n)*)", doc + "\n", re.MULTILINE)
    return set(re.findall(r"^    \**(\w+):", text[1], re.MULTILINE)) if text else set()


@pytest.mark.parametrize("name", PUBLIC)
def test_each_parameter_of_a_public_name_is_described_and_no_other(name):
    parameters = inspect.signature(PUBLIC[name]).parameters
    # A subclass that adds no parameter is described by its parent.
    kinds = getattr(PUBLIC[name], "__mro__", (PUBLIC[name],))
    described = next((s for kind in kinds if (s := section(kind, "Args"))), set())
    assert described == set(parameters)


@pytest.mark.parametrize("name", PUBLIC)
def test_errors_that_a_public_name_raises_itself_are_described(name):
    tree = ast.parse(inspect.getsource(PUBLIC[name]))
    raised = {
        node.exc.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)
    }
    assert raised <= section(PUBLIC[name], "Raises")


@pytest.mark.parametrize("name", [n for n, found in PUBLIC.items() if inspect.isfunction(found)])
def test_a_public_function_says_what_it_returns(name):
    assert "\nReturns:\n" in inspect.cleandoc(PUBLIC[name].__doc__)


def test_a_name_that_there_is_not_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"no attribute 'zzz'$"):
        lightning_gpuprof.zzz  # noqa: B018 - that is what fails


def test_each_public_name_is_offered_once():
    assert len(dir(lightning_gpuprof)) == len(set(dir(lightning_gpuprof)))
