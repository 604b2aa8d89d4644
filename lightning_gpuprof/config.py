"""The configuration of `GpuProfCallback`: the same names in Python, YAML and LightningCLI."""

import os
import re
import reprlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, get_type_hints

import msgspec
import yaml

from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.schedule import chosen_schedule

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
"""Two letters at least: one is a drive of Windows. A `Path` of a URL has lost a slash."""
SECTION = "profiling"
"""The top-level key of a user's YAML file below which the settings stand."""
_LISTS = ("metrics", "modules")
"""The settings that hold several names."""


@dataclass(frozen=True)
class GpuProfConfig:
    """All settings of the callback.

    The first five settings are the schedule of torch.profiler. If none of them is given, a short
    default window is recorded, and a run that is too short for it has no trace. A schedule that
    was given needs a run of at least `wait + (warmup + active) * (repeat + 1)` units.

    Args:
        unit: What the schedule counts: "step" (the default) or "epoch".
        wait: Units skipped once, at the start: by default 10 steps, or 3 epochs.
        warmup: Units per cycle in which torch.profiler is on but its events are dropped: by
            default 2 steps, or 1 epoch.
        active: Units that are recorded per cycle: by default 3 steps, or 3 epochs.
        repeat: Further cycles after the first: by default none, or 1 if epochs are counted.
        record_shapes: Whether traces hold the shapes of operators' inputs.
        profile_memory: Whether traces hold allocations.
        with_stack: Whether traces hold the Python stack. This is slow, and traces become large.
        trace_format: "json.gz", or "json" to leave traces uncompressed.
        quiet_window: Whether validation, checkpoints and other callbacks are left out of traces
            (needs torch 2.5).
        compiled: "keep", or "eager" to run compiled code uncompiled during the window (needs
            torch 2.6). The trace then shows its operators, and the arithmetic of these steps may
            differ.
        nvtx: Whether each phase is an NVTX range (rocTX on AMD), for nsys or rocprof.
        capture_range: Whether cudaProfilerStart and cudaProfilerStop are called around the window,
            for nsys and ncu, in the place of torch.profiler.
        teardown: Whether CUPTI, by which torch.profiler records a GPU, is detached behind the last
            window, so that launches cost what they did before: "on" where it is safe, "off", or
            "auto", which is off until a device has proven it. With "on", captures on a GPU sample
            lines but record no window.
        trace: Whether torch.profiler records a window. Only rank 0 does; to record other ranks,
            pass False and add `ProfilerSchedule(ranks=(0, 8))` to the callbacks.
        timing: Whether phases are timed. Other parts count steps by this timing: without it no
            lines are sampled, and the report has no steps.
        window: Steps per record and per `[PROFILE]` line. Several windows may be written together;
            the line then shows the last of them. Where so many steps take longer than ten seconds,
            a line comes every ten seconds and says so.
        warmup_steps: Number of steps at the start that count as warm-up and are left out of
            medians.
        console: Whether the `[PROFILE]` lines are shown.
        scalars: Whether the trainer's loggers receive the `gpuprof/*` medians, the values of
            `metrics` and, if they take files (W&B, MLflow), the report as an HTML file.
        metrics: Outputs of training_step that stay on the device until the end of a window, and
            are then written and logged together.
        facts: Whether single facts are recorded: the content of checkpoints, garbage collections,
            waits for a CPU core, a container's CPU quota, and the gradient sync of several ranks.
        outputs: Whether a checksum and some values of what predict_step returns are recorded, for
            the first 16 batches and then at every power of two, so that `compare` says whether two
            runs of `predict` agree.
        lines: Whether a thread samples the training thread's stack, 300 times in about twenty
            seconds, to find the lines that take the time, and after that, ever more rarely,
            between epochs. Threads in the first two workers of the training loader do the same,
            200 times each.
        batch_size: Whether a batch size is suggested, based on the GPU memory that steps use.
        vram_low: Lower end of the share of GPU memory that the suggested batch size fills.
        vram_high: Upper end of that share.
        device_stats: Whether a thread reads clocks, power and throttling from the driver. This
            needs a GPU and its vendor's library (nvidia-ml-py or amdsmi).
        memory_snapshot: Whether the history of GPU allocations is recorded, so that a file shows
            what filled the memory when it runs out. Costs a walk over the stack per allocation.
        max_captures: How often a run may be captured because its steps became slower: a profiler
            window, and the lines of twenty seconds. Each time, the next one waits until the run has
            lasted twice as long. With 0, `lightning-gpuprof capture` is not answered either.
        report: Whether the report is shown when a fit or an evaluation ends.
        modules: Names of modules, as in named_modules(), whose forward and backward are timed.
        device_marks: Whether phases are also timed on the device, with events and without a host
            sync.
        overhead_budget: Share of a step's time that profiling may cost, by its own clock. Above
            it, only one step in several is timed by phase and marked on the device; the report
            says so.
        log_dir: Where files are written, instead of the loggers' log dir.

    Raises:
        ConfigError: A value of the wrong type or out of range.
    """

    unit: str | None = None
    wait: int | None = None
    warmup: int | None = None
    active: int | None = None
    repeat: int | None = None
    record_shapes: bool = True
    profile_memory: bool = False
    with_stack: bool = False
    trace_format: Literal["json.gz", "json"] = "json.gz"
    quiet_window: bool = False
    compiled: Literal["keep", "eager"] = "keep"
    nvtx: bool = False
    capture_range: bool = False
    teardown: Literal["auto", "on", "off"] = "auto"
    trace: bool = True
    timing: bool = True
    window: int = 50
    warmup_steps: int = 5
    console: bool = True
    scalars: bool = True
    metrics: tuple[str, ...] = ("loss",)
    facts: bool = True
    outputs: bool = False
    lines: bool = True
    batch_size: bool = True
    vram_low: float = 0.6
    vram_high: float = 0.8
    device_stats: bool = True
    memory_snapshot: bool = False
    max_captures: int = 3
    report: bool = True
    modules: tuple[str, ...] = ()
    device_marks: bool = True
    overhead_budget: float = 0.005
    log_dir: str | None = None

    def __post_init__(self) -> None:
        """Check types and ranges."""
        if isinstance(self.log_dir, os.PathLike):
            object.__setattr__(self, "log_dir", os.fspath(self.log_dir))
        check_log_dir(self.log_dir)
        if isinstance(self.teardown, bool):  # as YAML reads `on` and `off`
            object.__setattr__(self, "teardown", "on" if self.teardown else "off")
        for name, hint in get_type_hints(type(self)).items():
            object.__setattr__(self, name, _checked(name, getattr(self, name), hint))
        if not 0 < self.overhead_budget <= 1:
            raise ConfigError(
                f"overhead_budget={self.overhead_budget} is not a share of a step's time. Pass a "
                "fraction above 0, such as 0.005 for half a percent."
            )
        if not 0 < self.vram_low < self.vram_high <= 1:
            raise ConfigError(
                f"vram_low={self.vram_low}, vram_high={self.vram_high} is not a range within a "
                "GPU's memory. Pass two fractions of 1, the lower first, such as 0.6 and 0.8."
            )
        checked_captures(self.max_captures)
        chosen_schedule(self.unit, self.wait, self.warmup, self.active, self.repeat)

    def schedule(self) -> dict[str, Any]:
        """Return those settings of the torch.profiler schedule that were given."""
        names = ("unit", "wait", "warmup", "active", "repeat")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return asdict(self) | {name: list(getattr(self, name)) for name in _LISTS}

    @classmethod
    def check_names(cls, settings: Mapping[str, Any], *, where: str) -> None:
        """Refuse settings that do not exist.

        Raises:
            ConfigError: A key is unknown; the message names the setting that is spelled most alike.
        """
        names = [field.name for field in fields(cls)]
        for key in settings:
            if key not in names:
                raise ConfigError(f"{where} has no setting {key!r}. {_suggestion(str(key), names)}")

    @classmethod
    def from_yaml(cls, path: str | os.PathLike[str]) -> "GpuProfConfig | None":
        """Read the `profiling:` section of a user's YAML file, and ignore all other sections.

        Returns:
            The configuration: the default where the file has no such section, and None for
            `profiling: null`, which turns profiling off.

        Raises:
            ConfigError: The file or the section cannot be read, or holds an unknown key.
        """
        document = _read_yaml(path)
        if SECTION not in document:
            near = get_close_matches(SECTION, [str(key) for key in document], n=1, cutoff=0.8)
            if near:
                raise ConfigError(
                    f"{path} has a section {near[0]!r} but no section {SECTION!r}. Rename it."
                )
            return cls()
        section = document[SECTION]
        if section is None:
            return None
        if not isinstance(section, Mapping):
            raise ConfigError(
                f"{SECTION}: {reprlib.repr(section)} in {path} is not a list of settings. Write "
                f"settings below it, such as `wait: 3`, or `{SECTION}: null` to turn profiling off."
            )
        cls.check_names(section, where=f"{SECTION}: in {path}")
        return cls(**section)


@dataclass(frozen=True)
class ProfileConfig(GpuProfConfig):
    """`GpuProfConfig` with epochs as the unit, for tyro's `profiling:profile-config`.

    Declare `profiling: ProfileConfig | None = None` in the dataclass that tyro parses, and pass
    the parsed value to `GpuProfCallback`. None turns profiling off.
    """

    unit: str | None = "epoch"


def checked_captures(max_captures: int) -> int:
    """Return how many slow-downs of a run may be captured; below 0 is a `ConfigError`."""
    if max_captures < 0:
        raise ConfigError(
            f"max_captures={max_captures} is negative. Pass 0 to capture nothing, or how many "
            "slow-downs of a run may be captured; 3 is the default."
        )
    return max_captures


def is_url(folder: object) -> bool:
    """Return whether a folder is one of remote storage.

    >>> is_url("s3://bucket/a"), is_url(Path("s3://bucket/a")), is_url("C:/logs")
    (True, True, False)
    """
    return _URL.match(str(folder)) is not None


def check_log_dir(log_dir: object) -> None:
    """Refuse a log dir in remote storage, of which a local folder `s3:` would be made.

    Raises:
        ConfigError: It is a URL.
    """
    if log_dir is not None and is_url(log_dir):
        raise ConfigError(
            f"log_dir={str(log_dir)!r} is a URL, and records are written to local folders only. "
            "Pass a folder on this machine, and copy it to the storage when the run has ended."
        )


def _read_yaml(path: str | os.PathLike[str]) -> Mapping[Any, Any]:
    try:
        document = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error}. Pass your YAML file.") from error
    except (yaml.YAMLError, ValueError) as error:  # ValueError: of its encoding, or of a date
        raise ConfigError(f"{path} is not valid YAML: {error}") from error
    except RecursionError as error:
        raise ConfigError(
            f"{path} is nested too deeply to be read. Write the settings directly below "
            f"`{SECTION}:`."
        ) from error
    if document is None:
        return {}
    if not isinstance(document, Mapping):
        raise ConfigError(f"{path} has no sections. Write `{SECTION}:` and the settings below it.")
    return document


def _suggestion(key: str, names: list[str]) -> str:
    near = get_close_matches(key, names, n=1)
    return f"Did you mean {near[0]!r}?" if near else f"The settings are: {', '.join(names)}."


def _checked(name: str, value: Any, hint: Any) -> Any:
    """Return a setting in its declared type: YAML and the command line give lists for tuples."""
    try:
        return msgspec.convert(value, hint)
    except msgspec.ValidationError as error:
        example = f", such as [{value!r}]" if name in _LISTS and isinstance(value, str) else ""
        raise ConfigError(f"{name}={value!r} has the wrong type. {error}{example}.") from error
