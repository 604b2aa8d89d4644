"""Hooks of mkdocs: the site has CONTRIBUTING.md as a page, and links lead where GitHub's do."""

import os
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = {ROOT / "CONTRIBUTING.md": "contributing.md"}
"""Files outside of docs/ that are pages of the site."""
_LINK = re.compile(r"(?<!!)\[([^\[\]]*)\]\(([^()\s]+)\)")
_CODE = re.compile(r"^(?:```|~~~).*?^(?:```|~~~)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages that are written outside of docs/."""
    for path, name in PAGES.items():
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return a page as the site needs it."""
    source = Path(page.file.abs_src_path or "")
    parts, end = [], 0
    for code in _CODE.finditer(markdown):
        parts += [_converted(markdown[end : code.start()], source, page, config), code[0]]
        end = code.end()
    return "".join([*parts, _converted(markdown[end:], source, page, config)])


def _converted(text: str, source: Path, page: Page, config: MkDocsConfig) -> str:
    def link(match: re.Match[str]) -> str:
        label, target = match.groups()
        place = _place(target, source, page, config)
        return f"[{label}]({place})" if place else label

    return "\n".join(_unescaped(line) for line in _LINK.sub(link, text).split("\n"))


def _unescaped(row: str) -> str:
    r"""Return a table's row with `|` for the `\|` in its code, as Python's Markdown wants it."""
    if not row.startswith("|"):
        return row
    cells = row.split("`")
    return "`".join(
        cell.replace("\\|", "|") if index % 2 else cell for index, cell in enumerate(cells)
    )


def _place(link: str, source: Path, page: Page, config: MkDocsConfig) -> str | None:
    """Return where a link leads on the site; None for a file that the site cannot link to."""
    path, mark, anchor = link.partition("#")
    if not path or "://" in path or path.startswith("mailto:"):
        return link
    target = (source.parent / path).resolve()
    name = PAGES.get(target)
    if name is None and target.is_relative_to(DOCS):
        index = target / "README.md" if target.is_dir() else target
        name = str(index.relative_to(DOCS))
    if name is not None:
        return os.path.relpath(name, os.path.dirname(page.file.src_uri) or ".") + mark + anchor
    if not target.exists():
        return link  # mkdocs reports it
    if not config.repo_url:
        return None
    return f"{config.repo_url.rstrip('/')}/blob/main/{target.relative_to(ROOT)}{mark}{anchor}"
