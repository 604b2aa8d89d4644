"""Perfetto's protobuf, which rocprofv3 and torch write."""
