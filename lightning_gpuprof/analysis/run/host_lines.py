"""Samples of the training thread's stack, under the name that rules import."""

from lightning_gpuprof.records.lines import HostLines, LineCount

__all__ = ["HostLines", "LineCount"]
