"""Pieces of GitHub-flavoured Markdown: text in which nothing is taken for markup."""

import re
from collections.abc import Iterable, Sequence

_MARKUP = re.compile(r"[\\`*\[\]<~$]|^>|(?<![^\W_])_|_(?![^\W_])")
_LINKS = re.compile(r"[@#](?=\w)")


def plain(text: str) -> str:
    r"""Return text as it is to be read; on GitHub no name is mentioned, no issue is linked.

    >>> print(plain("a[:, None] and __getitem__, @torch.compile"))
    a\[:, None\] and \_\_getitem\_\_, @<!-- -->torch.compile
    """
    escaped = _MARKUP.sub(r"\\\g<0>", " ".join(text.replace("&", "&amp;").split()))
    return _LINKS.sub(lambda found: f"{found[0]}<!-- -->", escaped)


def code(text: str) -> str:
    """Return text as code within a line, whatever backticks it holds.

    >>> code("train.py:3"), code("a`b")
    ('`train.py:3`', '`` a`b ``')
    """
    text = " ".join(text.split())
    if "`" not in text:
        return f"`{text}`"
    fence = _fence(text, least=1)
    return f"{fence} {text} {fence}"


def block(text: str, *, indent: int = 0) -> str:
    """Return text as a block of code.

    >>> print(block("x = 1"))
    ```python
    x = 1
    ```
    """
    fence = _fence(text, least=3)
    lines = (f"{fence}python", *text.splitlines(), fence)
    return "\n".join(" " * indent + line for line in lines)


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int]) -> str:
    r"""Return a table; pipes in its cells, which are Markdown themselves, are escaped.

    >>> print(table(["a", "b"], [["x|y", "1"]], right=[1]))
    | a | b |
    |---|--:|
    | x\|y | 1 |
    """
    rule = "|".join("--:" if column in right else "---" for column in range(len(header)))
    return "\n".join((_row(header), f"|{rule}|", *map(_row, rows)))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _fence(text: str, *, least: int) -> str:
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    return "`" * max(least, longest + 1)
