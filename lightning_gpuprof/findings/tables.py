"""Reads the TOML files of this package into typed tables."""

import sys
from importlib import resources
from typing import TypeVar

import msgspec

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TableType = TypeVar("TableType")


def read_toml(name: str, into: type[TableType]) -> TableType:
    """Read a TOML file that lies beside this module.

    Args:
        name: The file's name, such as `operators.toml`.
        into: The Struct that the file is read as.

    Raises:
        msgspec.ValidationError: The file has a key that the Struct lacks, lacks one that it needs,
            or has a value of another type.
    """
    text = resources.files(__package__).joinpath(name).read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), into)
