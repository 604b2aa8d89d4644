"""Joins the page's ES modules to one classic script: a file:// page may not import modules.

Not a general bundler: it knows the forms that our modules use (named imports of relative paths
at the start of a line, `export` before a declaration) and refuses any other.
"""

import importlib.util
import posixpath
import re
from pathlib import Path

import lightning_gpuprof

_IMPORT = re.compile(r'^import \{([^}]*)\} from "(\.[^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(
    r"^export (?=(?:async )?(?:function\*?|class|const) (?P<name>\w+))", re.MULTILINE
)
_LEFT = re.compile(r"^(?:import|export)\b.*$", re.MULTILINE)


def bundle(folder: Path, entry: str) -> str:
    """Return one script that does what the module `entry` of a folder does."""
    order: list[str] = []
    texts: dict[str, str] = {}
    _visit(folder, entry, (), texts, order)
    numbers = {name: index for index, name in enumerate(order)}
    parts = [_wrap(name, texts[name], numbers) for name in order]
    return '"use strict";\n(() => {\n' + "".join(parts) + "})();\n"


def _visit(
    folder: Path, name: str, above: tuple[str, ...], texts: dict[str, str], order: list[str]
) -> None:
    if name in above:
        raise ValueError(f"modules import each other: {' -> '.join([*above, name])}")
    if name in texts:
        return
    texts[name] = (folder / name).read_text(encoding="utf-8")
    for _, target in _IMPORT.findall(texts[name]):
        _visit(folder, _resolve(name, target), (*above, name), texts, order)
    order.append(name)


def _resolve(name: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), target))


def _wrap(name: str, text: str, numbers: dict[str, int]) -> str:
    """Make a module a function that returns what it exports."""

    def imported(match: re.Match[str]) -> str:
        names = match[1].replace(" as ", ": ")
        return f"const {{{names}}} = m{numbers[_resolve(name, match[2])]};\n"

    exports = [match["name"] for match in _EXPORT.finditer(text)]
    body = _EXPORT.sub("", _IMPORT.sub(imported, text))
    if unknown := _LEFT.search(body):
        raise ValueError(f"{name} has a form that cannot be bundled: {unknown[0]}")
    returned = ", ".join(exports)
    whole = f"(() => {{\n{body}return {{ {returned} }};\n}})()"
    return f"// {name}\nconst m{numbers[name]} = {whole};\n"


STATIC = Path(lightning_gpuprof.__file__).parent / "tb_plugin" / "static"
"""ES modules and the stylesheet, shared by the tab and the HTML report."""


def installed_file(package: str, *parts: str) -> Path | None:
    """Return where an installed package keeps a file, found without importing it."""
    spec = importlib.util.find_spec(package)
    folders = (spec.submodule_search_locations or []) if spec else []
    return next((path for one in folders if (path := Path(one, *parts)).is_file()), None)


def plotly_path() -> Path | None:
    """Return where the plotly package keeps its bundle."""
    return installed_file("plotly", "package_data", "plotly.min.js")
