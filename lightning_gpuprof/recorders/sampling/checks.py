"""Between which instructions Python lets another thread in: a sample stands for all since then."""

import dis
import sys
from functools import lru_cache
from types import CodeType

_NOTHING = ("CACHE", "NOP", "RESUME", "KW_NAMES", "POP_TOP", "PUSH_NULL")
_BEGINNING = dis.opmap.get("RESUME", -1)


def begins(code: CodeType, at: int) -> bool:
    """Tell whether a function has only just begun: the time before that was its caller's."""
    return at >= 0 and code.co_code[at] == _BEGINNING


@lru_cache(maxsize=1024)
def since_check(code: CodeType, at: int) -> tuple[tuple[int, ...], bool]:
    """Return the line of each instruction from the last check to this, and whether this is a call.

    Python checks whether another thread wants to run where a function begins, behind a call and
    where a loop turns. Before Python 3.11 it does between any two instructions: no line then.
    """
    span: list[tuple[int, int]] = []
    for one in dis.get_instructions(code) if sys.version_info >= (3, 11) else ():
        line = getattr(getattr(one, "positions", None), "lineno", None)
        if line and not one.opname.startswith(_NOTHING):
            span.append((one.offset, line))
        if one.offset == at:
            turn = one.argval if one.opname.startswith("JUMP_BACKWARD") else 0
            lines = tuple(line for offset, line in span if offset >= turn)
            return lines, one.opname.startswith(("CALL", "PRECALL"))
        if one.opname.startswith(("CALL", "JUMP_BACKWARD", "RESUME")):
            span = []
    return (), True
