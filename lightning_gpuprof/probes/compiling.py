"""Whether torch.compile traces the very code that asks."""

from collections.abc import Callable

import torch

is_compiling: Callable[[], bool] = getattr(torch.compiler, "is_compiling", lambda: False)
"""torch's own from 2.3 on: it knows this function, and traces it as a constant. torch 2.2 has none
to ask, and traces what a program does with a region as any other code."""
