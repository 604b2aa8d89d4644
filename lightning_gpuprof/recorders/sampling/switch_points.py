"""The instructions at which Python lets another thread run, such as a thread that samples."""

import dis
import sys
from functools import lru_cache
from types import CodeType

_WITHOUT_WORK = ("CACHE", "NOP", "RESUME", "KW_NAMES", "POP_TOP", "PUSH_NULL")
_FIRST_OPCODE = dis.opmap.get("RESUME", -1)


def has_just_begun(code: CodeType, offset: int) -> bool:
    """Return whether a function is at its first instruction, so that its time is its caller's."""
    return offset >= 0 and code.co_code[offset] == _FIRST_OPCODE


@lru_cache(maxsize=1024)
def lines_since_switch_point(code: CodeType, offset: int) -> tuple[tuple[int, ...], bool]:
    """Return the lines that ran since the last switch point, and whether the instruction is a call.

    Python looks for another thread that wants to run when a function begins, after a call, and when
    a loop begins its next turn. The result holds a line per instruction from the last such point to
    the instruction at `offset`. Before Python 3.11 another thread can run after any instruction,
    and there are no lines.
    """
    span: list[tuple[int, int]] = []
    for instruction in dis.get_instructions(code) if sys.version_info >= (3, 11) else ():
        name = instruction.opname
        line = getattr(getattr(instruction, "positions", None), "lineno", None)
        if line and not name.startswith(_WITHOUT_WORK):
            span.append((instruction.offset, line))
        if instruction.offset == offset:
            loop_begin = instruction.argval if name.startswith("JUMP_BACKWARD") else 0
            lines = tuple(line for at, line in span if at >= loop_begin)
            return lines, name.startswith(("CALL", "PRECALL"))
        if name.startswith(("CALL", "JUMP_BACKWARD", "RESUME")):
            span = []
    return (), True
