"""Reads torch's text on why a compiled function does not fit a call: what differed, and where.

Texts of `torch._dynamo.guards` and of its C++ part, torch 2.2 to 2.13. The text of a guard is the
expression that failed, such as `L['self'].calls == 7`, then as a comment the line for which torch
made the guard, with a shortened path, then hints, and in recent versions the stack at that line. A
text that is not recognized gives `GuardCause.OTHER`.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from lightning_gpuprof.records.lines import GuardCause

_COMPILATION = re.compile(r"^!?\d+(/\d+)*(_\d+)?: ")
"""What precedes the guard: the compilation that has it, such as `0/7: `."""
_HINT = re.compile(r"\s*\(HINT: (.*)\)\s*$")
_FRAME = re.compile(r'^\s+File "(.+)", line (\d+), in (\S+)$', re.MULTILINE)
_COMMENT = re.compile(r"\s+#\s.*$")
_LITERAL = r"(?P<number>[-+]?(?:\d|inf\b|nan\b)[\w.+-]*)|True|False|None|['\"].*['\"]|<.*>"
_SIZE = re.compile(r"\.(?:size|stride|storage_offset)\(\)")


class GuardReason(NamedTuple):
    """Why a compiled function did not fit a call.

    The fields are those of `Recompilation`. `stack` are files, lines and functions, the innermost
    last, at the line for which torch made the guard; empty if the text has none.
    """

    cause: GuardCause
    subject: str
    reason: str
    value: str = ""
    stack: tuple[tuple[str, int, str], ...] = ()


def parse_reason(text: str) -> GuardReason:
    """Return what torch's text says.

    >>> parse_reason("0/7: self.calls == 7  # self.calls += 1  # t.py:4 in forward")[:4]
    (<GuardCause.ATTRIBUTE: 'attribute'>, 'self.calls', 'self.calls == 7', '7')
    >>> parse_reason("2/0: tensor 'x' size mismatch at index 1. expected 4, actual 9")[:2]
    (<GuardCause.SIZE: 'size'>, 'x.shape[1]')
    """
    guard = _COMPILATION.sub("", text.strip()).partition("\n")[0]
    hint = _HINT.search(guard)
    guard = _HINT.sub("", guard)
    guard = _as_written(_COMMENT.sub("", guard).strip())
    frames = _FRAME.findall(text)
    stack = tuple((file, int(line), function) for file, line, function in frames)
    for pattern, cause in _PATTERNS:
        if match := pattern.match(guard):
            named = match.groupdict()
            subject, value = named.get("subject") or "", named.get("number") or ""
            if hint is not None and (variable := _CLOSURE.match(hint[1])):
                subject = "".join(variable.groups())
            if callable(cause):
                cause = cause(subject, value, match)
            if "index" in named:
                subject = f"{subject}.shape[{named['index']}]"
            return GuardReason(cause, _readable(subject), guard, value, stack)
    return GuardReason(GuardCause.OTHER, "", guard, "", stack)


_CLOSURE = re.compile(r'guard on "(\w+)"([\w.\[\]]*)')
"""The hint that names a variable of an outer function."""


def _as_written(guard: str) -> str:
    """Return a guard without torch's tables of local and global variables.

    >>> _as_written("L['self']._modules['body'].n == G['N']")
    'self.body.n == N'
    """
    guard = re.sub(r"\b[LG]\[\s*['\"](\w+)['\"]\s*\]", r"\1", guard)
    guard = re.sub(r"\._(?:modules|parameters|buffers)\['(\w+)'\]", r".\1", guard)
    return re.sub(r"\.__dict__\['(\w+)'\]", r".\1", guard)


def _readable(subject: str) -> str:
    """Return the subject with `x.shape[0]` for `x.size()[0]`."""
    return subject.replace(".size()", ".shape")


def _of_value(subject: str, value: str, match: re.Match[str]) -> GuardCause:
    """Return the cause of a guard that compares a value: whether it is a number, and where."""
    if not value:
        return GuardCause.FLAG
    return GuardCause.ATTRIBUTE if re.search(r"\.\w+$", subject) else GuardCause.NUMBER


def _of_size(subject: str, value: str, match: re.Match[str]) -> GuardCause:
    """Return the cause of a guard on a size, which is fixed if it is that of a parameter."""
    is_parameter = "Guard failed on a parameter" in match.string
    return GuardCause.PARAMETER if is_parameter else GuardCause.SIZE


def _of_tensor(subject: str, value: str, match: re.Match[str]) -> GuardCause:
    """Return the cause of a guard on a tensor's dispatch keys, of which the first is its device."""
    devices = re.findall(r"DispatchKeySet\((\w+)", match.string)
    return GuardCause.DEVICE if len(set(devices)) > 1 else GuardCause.MODE


def _of_object(subject: str, value: str, match: re.Match[str]) -> GuardCause:
    """Return the cause of a guard on an identity. Until torch 2.5 booleans were compared by it."""
    of_boolean = re.search(r"type=<class '(?:bool|NoneType)'>", match.string)
    return GuardCause.FLAG if of_boolean else GuardCause.OBJECT


_Cause = GuardCause | Callable[[str, str, re.Match[str]], GuardCause]
_NAME = r"(?P<subject>[\w.\[\]']+?)"
_TENSOR = r"tensor '(?P<subject>.+?)' "
_PATTERNS: tuple[tuple[re.Pattern[str], _Cause], ...] = tuple(
    (re.compile(pattern), cause)
    for pattern, cause in (
        (rf"{_TENSOR}size mismatch at index (?P<index>\d+)", _of_size),
        (rf"{_TENSOR}stride mismatch", GuardCause.STRIDES),
        (rf"{_TENSOR}rank mismatch", GuardCause.RANK),
        (rf"{_TENSOR}dtype mismatch", GuardCause.DTYPE),
        (rf"{_TENSOR}requires_grad mismatch", GuardCause.GRADIENT),
        (rf"{_TENSOR}(?:T|t)ensor device index mismatch", GuardCause.DEVICE),
        (rf"{_TENSOR}dispatch key set mismatch", _of_tensor),
        (r"expected type of '(?P<subject>.+?)' to be a tensor type", GuardCause.OBJECT),
        (r"GLOBAL_STATE changed|___check_global_state|___check_torch_function_mode_stack"
         r"|utils_device\.CURRENT_DEVICE|torch\.autograd\.forward_ad|torch\._functorch"
         r"|___is_grad_enabled|___are_deterministic", GuardCause.MODE),
        (r"Cache line invalidated", GuardCause.FREED),
        (r"BACKEND_MATCH", GuardCause.BACKEND),
        (r"___check_type_id\((?P<subject>.+), \d+\)", GuardCause.OBJECT),
        (r"___check_obj_id\((?P<subject>.+), \d+\)", _of_object),
        (r"(?:not )?hasattr\((?P<subject>[^,]+),", GuardCause.OBJECT),
        (r"len\((?P<subject>.+)\) [=!]= ", GuardCause.CONTAINER),
        (r"___tuple_iterator_len\((?P<subject>.+)\) ==", GuardCause.CONTAINER),
        (r"(?:not )?___dict_contains\(.+, (?P<subject>[^,]+)\)", GuardCause.CONTAINER),
        (r"list\((?:dict\.keys\()?(?P<subject>[^()]+?)(?:\.keys\()?\)\)? ==", GuardCause.CONTAINER),
        (rf"not {_NAME}$", GuardCause.CONTAINER),
        (rf"{_NAME} is (?:not )?None", GuardCause.FLAG),
        (rf"(?:(?:int|float|str|bool)\()?{_NAME}\)? == (?:{_LITERAL})$", _of_value),
        (rf"{_NAME} [<>]=? (?:{_LITERAL})$", _of_value),
        (rf"(?:{_LITERAL}) [<>]=? {_NAME}$", _of_value),
        (rf"{_NAME} is (?:not )?[\w.\[\]']+$", GuardCause.OBJECT),
        (rf".*?(?P<subject>[\w.\[\]']*{_SIZE.pattern}(?:\[\d+\])?)", GuardCause.SIZE_CONDITION),
    )
)  # fmt: skip
