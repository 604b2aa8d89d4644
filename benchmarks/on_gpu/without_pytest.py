"""Runs test files where pytest is not to be had.

    python benchmarks/on_gpu/without_pytest.py FILE ... [--basetemp=FOLDER]

It knows what tests/gpu uses of pytest and no more: fixtures (of the file and of tests/conftest.py,
made anew for each test), `parametrize`, `skipif`, `skip`, `importorskip`, `raises`, `approx`. Its
lines read like those of `pytest -v`. The exit status is 1 where a test did not pass.
"""

import faulthandler
import importlib.util
import inspect
import itertools
import re
import reprlib
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
HANGS_AFTER_S = 60
BRIEF = reprlib.Repr()
BRIEF.maxother = BRIEF.maxstring = 120
Mark = tuple[str, tuple[Any, ...], dict[str, Any]]


class Skipped(BaseException):
    """A test cannot run here."""


class Marks:
    """`pytest.mark`: each attribute makes a decorator that notes its arguments."""

    def __getattr__(self, name: str) -> Any:
        def mark(*args: Any, **kwargs: Any) -> Any:
            def decorate(function: Any) -> Any:
                function.marks = [*getattr(function, "marks", []), (name, args, kwargs)]
                return function

            decorate.mark = (name, args, kwargs)  # type: ignore[attr-defined]
            return decorate

        mark.mark = (name, (), {})  # type: ignore[attr-defined]
        return mark


def fixture(function: Any = None, *, name: str | None = None, **_: Any) -> Any:
    def decorate(function: Any) -> Any:
        function.fixture = name or function.__name__
        return function

    return decorate if function is None else decorate(function)


def skip(reason: str = "") -> None:
    raise Skipped(reason)


def importorskip(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise Skipped(f"could not import {name!r}") from None


@contextmanager
def raises(kind: type[BaseException]) -> Iterator[None]:
    try:
        yield
    except kind:
        return
    raise AssertionError(f"did not raise {kind.__name__}")


class approx:
    def __init__(self, expected: float, *, rel: float | None = None, abs: float | None = None):
        self.expected = expected
        given = [0.0 if rel is None else rel * _size(expected), 0.0 if abs is None else abs]
        self.tolerance = max(given) if rel or abs else max(1e-6 * _size(expected), 1e-12)

    def __eq__(self, actual: object) -> bool:
        return _size(actual - self.expected) <= self.tolerance  # type: ignore[operator]

    def __repr__(self) -> str:
        return f"{self.expected} ± {self.tolerance:.3g}"


_size = abs


def stand_in() -> ModuleType:
    """Return what `import pytest` gives from here on."""
    module: Any = ModuleType("pytest")
    module.mark, module.fixture, module.approx = Marks(), fixture, approx
    module.skip, module.importorskip, module.raises = skip, importorskip, raises
    return module


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tests_of(module: ModuleType) -> Iterator[tuple[str, Callable[..., Any], dict[str, Any]]]:
    """Yield each test's name, function and parameters."""
    for name, function in list(vars(module).items()):  # compiling adds names to a module
        if name.startswith("test_") and inspect.isfunction(function):
            sets = [list(_cases(*args, **kwargs)) for mark, args, kwargs in _marks(function)
                    if mark == "parametrize"]  # fmt: skip
            for chosen in itertools.product(*sets):
                ids = "-".join(label for label, _ in chosen)
                values = {key: value for _, case in chosen for key, value in case.items()}
                yield f"{name}[{ids}]" if chosen else name, function, values


def _marks(function: Any) -> list[Mark]:
    return list(getattr(function, "marks", []))


def _cases(
    names: str | Sequence[str], values: Any, *, ids: Any = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    keys = re.split(r"[,\s]+", names) if isinstance(names, str) else list(names)
    for number, value in enumerate(values):
        label = str(value) if len(keys) == 1 else str(number)
        if ids is not None:
            label = ids(value) if callable(ids) else ids[number]
        yield label, dict(zip(keys, [value] if len(keys) == 1 else value, strict=True))


def call(
    function: Callable[..., Any], given: dict[str, Any], fixtures: dict[str, Any], base: str | None
) -> None:
    """Run a test with its fixtures, and end them behind it; under `base` its folder stays."""
    with ExitStack() as stack:

        def value(name: str) -> Any:
            if name not in given:
                maker = fixtures[name]
                arguments = {key: value(key) for key in inspect.signature(maker).parameters}
                made = maker(**arguments)
                if inspect.isgenerator(made):
                    stack.callback(next, made, None)
                    made = next(made)
                given[name] = made
            return given[name]

        if base is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        else:
            folder = tempfile.mkdtemp(prefix=f"{function.__name__}-", dir=base)
        given = {"tmp_path": Path(folder), **given}
        function(**{name: value(name) for name in inspect.signature(function).parameters})


def outcome(
    function: Callable[..., Any],
    given: dict[str, Any],
    module: ModuleType,
    fixtures: dict[str, Any],
    base: str | None,
) -> tuple[str, str]:
    """Return how a test ended, and why."""
    shared = [entry.mark for entry in getattr(module, "pytestmark", [])]
    for mark, args, kwargs in [*shared, *_marks(function)]:
        if mark == "skipif" and args[0]:
            return "SKIPPED", str(kwargs.get("reason", ""))
    faulthandler.dump_traceback_later(HANGS_AFTER_S)
    try:
        call(function, dict(given), fixtures, base)
    except Skipped as skipped:
        return "SKIPPED", str(skipped)
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        return "FAILED", "".join(traceback.format_exception(error)) + values_at(error)
    finally:
        faulthandler.cancel_dump_traceback_later()
    return "PASSED", ""


def values_at(error: BaseException) -> str:
    """Return what the failed line's names stood for: a bare assert tells nothing of them."""
    frames = list(traceback.walk_tb(error.__traceback__))
    if not isinstance(error, AssertionError) or not frames:
        return ""
    names = frames[-1][0].f_locals
    try:
        return "".join(f"    where {name} = {BRIEF.repr(names[name])}\n" for name in names)
    except Exception as failed:  # noqa: BLE001 - of an object: nothing that a test could be told
        return f"    where its values cannot be shown: {failed}\n"


def main(paths: Sequence[str]) -> int:
    sys.modules["pytest"] = stand_in()
    conftest = load(ROOT / "tests" / "conftest.py")
    failures = {}
    options = [path for path in paths if path.startswith("--basetemp=")]
    base = options[-1].partition("=")[2] if options else None
    if base is not None:
        Path(base).mkdir(parents=True, exist_ok=True)
    for path in map(Path, (path for path in paths if path not in options)):
        module = load(path)
        found = [*vars(conftest).values(), *vars(module).values()]
        fixtures = {made.fixture: made for made in found if hasattr(made, "fixture")}
        shown: Any = path.resolve()
        shown = shown.relative_to(ROOT) if shown.is_relative_to(ROOT) else path
        for name, function, given in tests_of(module):
            test = f"{shown}::{name}"
            print(f"{test} ...", flush=True)  # named at once, should it hang or crash
            status, why = outcome(function, given, module, fixtures, base)
            said = f" ({why})" if status == "SKIPPED" and why else ""
            print(f"\n{test} {status}{said}", flush=True)  # below what was left of a progress bar
            if status == "FAILED":
                failures[test] = why
    if failures:
        print(f"{' FAILURES ':=^80}")
        for name, why in failures.items():
            print(f"____ {name} ____\n{why}")
        print(f"{' short test summary info ':=^80}")
        print(*(f"FAILED {name}" for name in failures), sep="\n")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
