"""The exceptions that this package raises on purpose, each with what was given and what to do."""


class GpuProfError(Exception):
    """Base of every error raised on purpose by lightning_gpuprof."""

    def _render_traceback_(self) -> list[str]:
        """Have notebooks show the message alone: it says what to do."""
        return [f"{type(self).__name__}: {self}"]


class ConfigError(GpuProfError, ValueError):
    """A setting that cannot work: says what was given, what follows, and what would work."""


class RecordError(GpuProfError):
    """A run directory or record file that cannot be read, or is not one of ours."""


class TraceError(GpuProfError):
    """A trace file that is of no known kind, or holds nothing that can be read."""


class UnknownTraceError(TraceError):
    """A file that no reader knows."""


class UnreadableError(GpuProfError, ValueError):
    """Content of a file that cannot be read; the message says why, and whoever reads says where."""
