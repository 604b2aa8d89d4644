"""What a torch function does, as far as its name says it."""

LAYERS = frozenset(
    """embedding linear conv1d conv2d conv3d layer_norm batch_norm group_norm""".split()
)
PRODUCTS = frozenset({"matmul", "mm", "bmm", "__matmul__", "__rmatmul__", "einsum", "linear"})
ATTENDS = (PRODUCTS - {"linear"}) | {"scaled_dot_product_attention"}
READS = frozenset("item tolist __bool__ __int__ __float__ __index__".split())
ATTENTION = "multi_head_attention_forward"
PACKS = "_pack_padded_sequence"
FILLS = frozenset(
    """zeros ones full empty empty_strided scalar_tensor zeros_like ones_like full_like empty_like
    new_zeros new_ones new_full new_empty""".split()
)
"""What is filled is often filled in later, and takes no time to speak of."""
_RANDOM = ("rand", "bernoulli", "binomial", "multinomial", "normal", "poisson", "sample")
_NOT_RANDOM = frozenset({"normalize", "poisson_nll_loss"})
_CHANCE = frozenset(
    """uniform_ exponential_ geometric_ cauchy_ log_normal_ _standard_gamma
    _sample_dirichlet""".split()
)


def is_random(name: str) -> bool:
    """Tell whether a function draws random numbers.

    >>> [is_random(name) for name in ("native_dropout", "_standard_gamma", "_standard_gamma_grad")]
    [True, True, False]
    >>> is_random("normal_"), is_random("normalize")
    (True, False)
    """
    if name in _NOT_RANDOM:
        return False
    return name.startswith(_RANDOM) or name in _CHANCE or "_rand" in name or "dropout" in name


def is_in_place(name: str) -> bool:
    """Tell whether a function changes what it is given.

    >>> [is_in_place(name) for name in ("add_", "__iadd__", "__setitem__", "__invert__", "add")]
    [True, True, True, False, False]
    """
    return (
        name == "__setitem__"
        or (name.startswith("__i") and name != "__invert__")
        or (name.endswith("_") and not name.endswith("__"))
    )
