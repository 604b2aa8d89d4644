"""The exceptions of this package. Every message says what was given and what to do."""


class GpuProfError(Exception):
    """The base class of every error that lightning_gpuprof raises on purpose."""

    def _render_traceback_(self) -> list[str]:
        """Show notebooks the message without the traceback: the message says what to do."""
        return [f"{type(self).__name__}: {self}"]


class ConfigError(GpuProfError, ValueError):
    """A setting that cannot work.

    The message says what was given, what follows from it, and what would work.
    """


class RecordError(GpuProfError):
    """A run folder or record file that cannot be read, or that this package did not write."""


class TraceError(GpuProfError):
    """A trace file of an unknown format, or without anything that can be read."""


class UnknownTraceError(TraceError):
    """A file whose format no reader recognizes."""


class UnreadableError(GpuProfError, ValueError):
    """The content of a file cannot be read.

    The message says why. The caller, who knows the file's path, adds it.
    """
