"""The base of records that hold a single fact; `kind` tells records apart in the file."""

import msgspec


class FactBase(msgspec.Struct, tag_field="kind", omit_defaults=True, frozen=True):
    """A line of a record file, of which the last of its kind counts."""
