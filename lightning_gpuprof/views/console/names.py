"""Names of C++ as they fit into a line."""


def kernel_name(name: str) -> str:
    """Return a kernel's name without the type before it and the parameters behind it.

    >>> kernel_name("void at::native::(anonymous namespace)::pooled<4, float>(int, char*)")
    'at::native::pooled<4, float>'
    >>> kernel_name("std::enable_if<!(false), void>::type gemv::kernel<int>(gemv::Params<int>)")
    'gemv::kernel<int>'
    >>> kernel_name("ampere_sgemm_128x64_tn")
    'ampere_sgemm_128x64_tn'
    """
    name = name.replace("(anonymous namespace)::", "")
    depth = begin = 0
    for at, sign in enumerate(name):
        if sign == "<":
            depth += 1
        elif sign == ">":
            depth -= depth > 0
        elif sign == " " and not depth:
            begin = at + 1
        elif sign == "(" and not depth:
            return name[begin:at] or name
    return name
