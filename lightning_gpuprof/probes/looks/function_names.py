"""What functions of torch's do, by their names."""

_RANDOM = ("rand", "dropout", "bernoulli", "multinomial", "normal", "poisson", "sample")
_CHANCE = frozenset({"uniform_", "exponential_", "geometric_", "cauchy_", "log_normal_"})


def is_random(name: str) -> bool:
    """Tell whether a function draws random numbers."""
    return name.startswith(_RANDOM) or name in _CHANCE or "_rand" in name


def in_place(name: str) -> bool:
    """Tell whether a function changes the tensor that it is given first."""
    return (
        name == "__setitem__"
        or (name.startswith("__i") and name != "__invert__")
        or (name.endswith("_") and not name.endswith("__"))
    )
