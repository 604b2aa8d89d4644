"""Makes CPU operators save the tensors that the same operators save on CUDA.

Fake tensors on the device "cuda" need a CUDA build of torch. Fake CPU tensors do not, but a few of
their operators save other tensors for backward. Inside `cuda_rules()` these operators do as on
CUDA: dropout saves a bool mask, attention is fused, and autocast widens the operators of CUDA's
float32 list. The workspaces of kernels are not counted.

The private names are in torch 2.1 to 2.13. This module only runs in a child process of `plan`, so
that a missing name costs a prediction, but never a training run.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

_aten: Any = torch.ops.aten
_AUTOCAST_KEY = "AutocastCPU"
_HALF = (torch.bfloat16, torch.float16)

_FLOAT32_OPS = (
    "acos", "asin", "cosh", "cosine_similarity", "dist", "erfinv", "exp", "expm1", "group_norm",
    "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "layer_norm", "log", "log10",
    "log1p", "log2", "logsumexp", "margin_ranking_loss", "mse_loss", "nll_loss", "nll_loss_nd",
    "norm.Scalar", "norm.ScalarOpt_dim", "poisson_nll_loss", "pow.Tensor_Scalar",
    "pow.Tensor_Tensor", "reciprocal", "renorm", "rsqrt", "sinh", "smooth_l1_loss",
    "soft_margin_loss", "softplus", "tan", "binary_cross_entropy_with_logits",
)  # fmt: skip
"""CUDA autocast's list `fp32` (`aten/src/ATen/autocast_mode.h`), as far as training uses it."""

_FLOAT32_DTYPE_OPS = (
    "cumprod", "cumsum", "log_softmax.int", "prod", "prod.dim_int", "softmax.int", "sum",
    "sum.dim_IntList",
)  # fmt: skip
"""CUDA autocast's list `fp32_set_opt_dtype`: the output is float32, the input is not widened."""


@contextmanager
def cuda_rules() -> Iterator[None]:
    """Let CPU operators save what those of CUDA save. This affects the whole process."""
    library = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    try:
        _put(library, "dropout", _dropout, "AutogradCPU")
        _put(library, "scaled_dot_product_attention", _attention, "AutogradCPU")
        for name in _FLOAT32_OPS:
            _put(library, name, _widened(_operator(name)), _AUTOCAST_KEY)
        for name in _FLOAT32_DTYPE_OPS:
            _put(library, name, _giving_float32(_operator(name)), _AUTOCAST_KEY)
        yield
    finally:
        library._destroy()  # type: ignore[no-untyped-call]


def _operator(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(_aten, packet), overload or "default")


def _put(library: Any, name: str, kernel: Callable[..., Any], key: str) -> None:
    # An operator that CPU autocast lists itself is left as it is, since both lists agree on it.
    if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", key):
        library.impl(name, kernel, key)


def _below_autocast() -> Any:
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
    return torch._C._ExcludeDispatchKeyGuard(keys)


def _is_half(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in _HALF


def _widened(operator: Any) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        with _below_autocast():
            wide = [arg.float() if _is_half(arg) else arg for arg in args]
            return operator(*wide, **kwargs)

    return kernel


def _giving_float32(operator: Any) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        with _below_autocast():
            named = any(isinstance(value, torch.dtype) for value in (*args, *kwargs.values()))
            if _is_half(args[0]) and not named:
                return operator(*args, **{**kwargs, "dtype": torch.float32})
            return operator(*args, **kwargs)

    return kernel


def _dropout(input: torch.Tensor, p: float, train: bool) -> Any:
    if not train or p == 0:
        return input
    return torch.native_dropout(input, p, True)[0]


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Save query, key, value, output and one float per row, as the fused kernels of CUDA do."""
    if enable_gqa:
        times = query.shape[-3] // key.shape[-3]
        key, value = key.repeat_interleave(times, -3), value.repeat_interleave(times, -3)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype)
    shape = query.shape
    if query.dim() != 4:
        # The fused operator takes only [batch, heads, length, width].
        query, key, value = (_four_dims(tensor) for tensor in (query, key, value))
    out = _aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale
    )[0]
    return out if len(shape) == 4 else out.reshape(*shape[:-1], out.shape[-1])


def _four_dims(tensor: torch.Tensor) -> torch.Tensor:
    heads = tensor.shape[-3] if tensor.dim() > 2 else 1
    return tensor.reshape(-1, heads, *tensor.shape[-2:])
