"""Names of kernels, which C++ writes with types, namespaces and templates."""

import re


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


def kernel_family(name: str) -> str:
    """Return a kernel's name without its template and namespaces, too.

    >>> kernel_family("void (anonymous namespace)::add_rows<float, 4>(long const*, float*)")
    'add_rows'
    >>> kernel_family("std::enable_if<!(false), void>::type gemv::kernel<int>(gemv::Params<int>)")
    'kernel'
    """
    plain = kernel_name(name)
    while plain != (outer := re.sub(r"<[^<>]*>", "", plain)):
        plain = outer
    return re.split(r"::|\s", plain.strip())[-1] or name
