"""Compares what two functions return, leaf by leaf."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Agreement:
    """Whether two results agree within a tolerance.

    Args:
        agrees: Every leaf has the same shape and agrees everywhere.
        max_error: The largest absolute difference; None where nothing could be compared.
        reason: What differs and where, empty where nothing does.
    """

    agrees: bool
    max_error: float | None
    reason: str = ""


def compare_results(baseline: Any, optimized: Any, tolerance: float) -> Agreement:
    """Compare two results that may be nested.

    Numbers agree where they differ by at most `tolerance * (1 + |baseline|)`; NaN agrees with
    NaN. Types of number may differ: a bfloat16 result is compared with a float32 one by value.

    >>> compare_results(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.01]), 1e-2).agrees
    True
    >>> compare_results([1.0], [1.0, 2.0], 1e-2).reason
    'result: 1 parts against 2'
    """
    return _compare(baseline, optimized, tolerance, "result")


def _compare(first: Any, second: Any, tolerance: float, place: str) -> Agreement:
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        if set(first) != set(second):
            return Agreement(False, None, f"{place}: keys {list(first)} against {list(second)}")
        pairs = {f"{place}[{key!r}]": (first[key], second[key]) for key in first}
        return _compare_all(pairs, tolerance)
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        if len(first) != len(second):
            return Agreement(False, None, f"{place}: {len(first)} parts against {len(second)}")
        both = enumerate(zip(first, second, strict=True))
        return _compare_all({f"{place}[{at}]": pair for at, pair in both}, tolerance)
    return _compare_leaves(first, second, tolerance, place)


def _compare_all(pairs: dict[str, tuple[Any, Any]], tolerance: float) -> Agreement:
    found = [_compare(a, b, tolerance, place) for place, (a, b) in pairs.items()]
    errors = [one.max_error for one in found if one.max_error is not None]
    reason = next((one.reason for one in found if not one.agrees), "")
    return Agreement(not reason, max(errors, default=None), reason)


def _compare_leaves(first: Any, second: Any, tolerance: float, place: str) -> Agreement:
    if first is None and second is None:
        return Agreement(True, None)
    a, b = _numbers(first), _numbers(second)
    if a is None or b is None:
        same = bool(type(first) is type(second) and first == second)
        reason = "" if same else f"{place}: {first!r:.40} against {second!r:.40}"
        return Agreement(same, None, reason)
    if a.shape != b.shape:
        return Agreement(False, None, f"{place}: shape {tuple(a.shape)} against {tuple(b.shape)}")
    if a.numel() == 0:
        return Agreement(True, 0.0)
    close = torch.isclose(b, a, rtol=tolerance, atol=tolerance, equal_nan=True)
    difference = torch.where(a == b, 0.0, (a - b).abs()).nan_to_num(0.0, posinf=float("inf"))
    error = float(difference.max())
    if bool(close.all()):
        return Agreement(True, error)
    wrong = int((~close).sum())
    return Agreement(
        False, error, f"{place}: {wrong} of {a.numel()} values differ, by up to {error:.3g}"
    )


def _numbers(leaf: Any) -> Tensor | None:
    """Return a leaf's values as float64 or complex128 on the host; None where it has none."""
    if isinstance(leaf, Tensor):
        values = leaf.detach()
    else:
        try:
            values = torch.from_numpy(np.array(leaf))  # arrays of other libraries, and numbers
        except (TypeError, ValueError):
            return None
    return values.to("cpu", torch.complex128 if values.is_complex() else torch.float64)
