"""The results of `lightning-gpuprof try`, a JSON file in the folder of the run that it tried."""

import os
from typing import Any

import msgspec

from lightning_gpuprof.errors import RecordError, UnreadableError
from lightning_gpuprof.records.decode import decoded
from lightning_gpuprof.records.files import LOCAL, FileSystem, plugin_dir, written_whole

TRIALS_FILE = "trials.json"
FASTER, SLOWER, SAME, UNDECIDED = "faster", "slower", "same", "undecided"
FAILED, NOT_RUN, NO_TIME = "failed", "not run", "no time"
"""`NOT_RUN` is a change that need not be tried, `NO_TIME` one for which no time was left."""
BIT_EQUAL, CLOSE, CHANGED, NOT_COMPARED = (
    "bit-equal", "within tolerance", "changed", "not compared",
)  # fmt: skip


class ChangedSettings(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename={"data_loader": "DataLoader", "trainer": "Trainer"},
):
    """What one or several changes write into a program."""

    data_loader: dict[str, Any] = {}
    """Arguments of the DataLoader."""
    trainer: dict[str, Any] = {}
    """Arguments of the Trainer."""
    optimizer: dict[str, Any] = {}
    """Arguments of the optimizers."""
    callbacks: tuple[str, ...] = ()
    """Names of this package's callbacks to add."""
    lines: tuple[str, ...] = ()
    """Lines of code that run as training starts; they can use `torch` and `model`."""
    without_callbacks: tuple[str, ...] = ()
    """Classes of callbacks to leave out. Only a trial does that."""
    without_loggers: bool = False
    """Whether to leave out the loggers. Only a trial does that."""
    cached_batches: int | None = None
    """Train on only this many first batches, again and again. Only a trial can do that."""

    def __bool__(self) -> bool:
        """Return whether anything is changed."""
        return self != ChangedSettings()


class Side(msgspec.Struct, frozen=True):
    """The program with or without a change; both sides have as many samples per step."""

    step_ns: int
    samples_per_s: float | None = None
    memory_bytes: int | None = None
    first_step_ns: int | None = None


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """A change, or several changes together (`combination`), against the program as it is.

    docs/reference/json.md describes the fields. The gain is a share of the step, with its 95%
    interval.
    """

    change: str
    value: Any = None
    verdict: str
    note: str = ""
    alters: str = ""
    ceiling: bool = False
    computed: bool = False
    losses: str = NOT_COMPARED
    pairs: int = 0
    before: Side | None = None
    after: Side | None = None
    low_frac: float | None = None
    gain_frac: float | None = None
    high_frac: float | None = None
    break_even_step: int | None = None
    findings: tuple[str, ...] = ()
    predicted_ns: tuple[int, int] | None = None
    paste: str = ""

    @property
    def name(self) -> str:
        """The change with its value, as `--change` accepts it."""
        return self.change if self.value is None else f"{self.change}={self.value}"

    @property
    def gain_ns(self) -> tuple[int, int] | None:
        """The interval of the time that a step takes less with the change."""
        if self.before is None or self.low_frac is None or self.high_frac is None:
            return None
        step_ns = self.before.step_ns
        return round(self.low_frac * step_ns), round(self.high_frac * step_ns)


class Trials(msgspec.Struct, frozen=True, kw_only=True):
    """All trials of a program, and the changes that helped together.

    Args:
        combination: The trial of all changes that helped, made together.
        paste: These changes as code to paste into the program.
        settings: These changes as arguments of the program's own classes.
    """

    program: str
    seconds: float
    schema_version: int = 1
    notes: tuple[str, ...] = ()
    trials: tuple[Trial, ...] = ()
    combination: Trial | None = None
    paste: str = ""
    settings: ChangedSettings = ChangedSettings()

    @property
    def decided(self) -> int:
        """How many changes were tried until their effect was clear."""
        return sum(trial.verdict in (FASTER, SLOWER, SAME) for trial in self.trials)

    @property
    def undecided(self) -> int:
        """How many changes were tried too briefly, or not at all for lack of time."""
        return sum(trial.verdict in (UNDECIDED, NO_TIME) for trial in self.trials)


_TRIALS = msgspec.json.Decoder(Trials)


def write_trials(run: str, trials: Trials) -> str:
    """Write trials into a run's folder, where they replace earlier ones; return the file's path."""
    path = os.path.join(plugin_dir(run), TRIALS_FILE)
    with written_whole(path) as part, open(part, "wb") as file:
        file.write(msgspec.json.encode(trials))
    return path


def read_trials(run: str, fs: FileSystem = LOCAL) -> Trials | None:
    """Return a run's trials; None if there are none."""
    path = os.path.join(plugin_dir(run), TRIALS_FILE)
    try:
        return decoded(_TRIALS, fs.read_bytes(path)) if fs.exists(path) else None
    except (UnreadableError, OSError) as error:
        message = f"{path} cannot be read ({error}). Run `try` again to renew it."
        raise RecordError(message) from error
