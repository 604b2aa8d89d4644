"""Everything that needs a GPU, on a bare machine: `python3 benchmarks/gpu.py [PART ...]`.

Needs no installation: the package is imported from this checkout, and what else is missing comes
from `wheels/` (`make wheels` fills it; no pip is needed to unpack it), into a folder that is
dropped afterwards. Each part runs in a process of its own, within its time; a part that fails,
hangs or cannot run does not stop the others, and its output is in the results.
`benchmarks/results/gpu-<date>.json` is written anew before and after each part, and
`gpu-<date>-fixtures.tar.gz` (small real traces, records and snapshots) after it, both with copies
in the folder that the variable OUT names, so that nothing is lost if this program is ended. The
promises for a GPU are printed as PASS or FAIL. The exit status is the number of parts that did not
pass.

All parts together fit into eight minutes, but for `examples`, which runs example_projects/: it
has a call of its own. Where no driver answers, only a pretended device is there: its figures mean
nothing, are marked as such, and go to OUT alone.
"""

import importlib
import importlib.util
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent / "on_gpu"))  # for what it runs

import _harness
from _gpu_kept import driver_answers, hand_over, keep, pack, targets
from _gpu_summary import summarize
from _harness import RESULTS

ROOT = Path(__file__).resolve().parents[1]
WHEELS = ROOT / "wheels"
ON_GPU = "benchmarks/on_gpu"
WHOLE_S = 470
"""From the first moment on, so that eight minutes hold; a part may take what is left of it, at
most its own limit."""
KEEP_EVERY_S = 10
ASKED_FOR = ("examples", "try")
"""Parts that run only where they are named: beside the others there is no time for them."""
EXAMPLES = (
    "--rounds", "1", "--seconds", "420",
    "--only", "dreamer_rssm", "kg_rollout", "inference_ab", "roofline_tour", "latent_yaml",
)  # fmt: skip
"""All but the one of the part `example`."""
DEMO_STEPS = "120"
"""Of 300: a step of before.py takes a slow host 0.13 s."""
FAILURES_CHARS, STACKS_LINES = 20_000, 300
STACKS_S = 3
ALONE = {
    "PYTHONUNBUFFERED": "1",
    "PYTHONFAULTHANDLER": "1",  # what crashes or is stopped says where
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # those of the machine's have no say in these tests
}
"""Added to the environment of each part."""
BEGUN = time.monotonic()

PYTEST = (
    "-v", "-rP", "--tb=short", "--durations=5", "-p", "no:cacheprovider",
    "-o", "faulthandler_timeout=60",
)  # fmt: skip
SETTINGS = "power.limit,clocks.max.sm,clocks.max.mem,mig.mode.current,compute_mode,ecc.mode.current"
"""Asked of nvidia-smi: a card's speed depends on these, too."""
NEEDED = {
    "torch": "torch",
    "lightning": "lightning",
    "numpy": "numpy",
    "typing_extensions": "typing_extensions",
    "msgspec": "msgspec",
    "yaml": "pyyaml",
}
"""By module the package that every part needs; then those that make it better."""
BETTER_WITH = {
    "isal": "isal",
    "pynvml": "nvidia-ml-py",
    "pytest": "pytest",
    **{name: name for name in ("iniconfig", "packaging", "pluggy", "pygments")},  # pytest's
}


@dataclass(frozen=True)
class Part:
    """One process: its arguments, its time, and modules without which it is left out."""

    arguments: tuple[str, ...]
    limit_s: int
    needs: tuple[str, ...] = ()


def parts(work: Path) -> dict[str, Part]:
    """By name, the most important first: what is taken for granted of a device, what is right, what
    it costs.

    An error that CUDA keeps, or a crash, ends its process alone. The files of tests that train have
    one together: to import Lightning may take longer than the tests of a file.
    """

    def measures(name: str, limit_s: int, *options: str) -> Part:
        script, result = f"{ON_GPU}/gpu_{name}.py", str(work / f"{name}.json")
        seconds = str(limit_s - 20)
        return Part((script, "--json", result, "--seconds", seconds, *options), limit_s)

    def tests(name: str, limit_s: int, *files: str) -> Part:
        paths = [f"tests/gpu/test_{file}_on_gpu.py" for file in files or (name,)]
        arguments = ("-m", "pytest", *PYTEST, *paths, f"--basetemp={runs(name)}")
        return Part(arguments, limit_s, ("pytest",))

    def runs(name: str) -> str:
        return str(work / "runs" / name)

    return {
        "tests-assumptions": tests("assumptions", 80),
        "tests-training": tests("training", 120, "inspect", "capture", "timing", "promises"),
        "tests-memory": tests("memory", 70),
        "memory": measures("memory", 120),
        "faults": measures("faults", 80, "--runs", str(work / "runs" / "faults")),
        "marks": measures("marks", 84),
        "example": Part(
            ("example_projects/char_lm/demo.py", "--steps", DEMO_STEPS, "--runs", runs("example")),
            80,
            ("tensorboard",),
        ),
        "try": tests("try", 420),
        "examples": Part(
            ("benchmarks/examples.py", *EXAMPLES, "--json", str(work / "examples.json"),
             "--runs", runs("examples")),
            WHOLE_S,
            ("tensorboard",),
        ),
    }  # fmt: skip


def main() -> int:
    known = list(parts(Path()))
    wanted = sys.argv[1:] or [part for part in known if part not in ASKED_FOR]
    if unknown := sorted(set(wanted) - set(known)):
        print(f"No part is called {', '.join(unknown)}. There are: {', '.join(known)}.")
        return 2
    if not has_gpu():
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    stamp = datetime.now(timezone.utc)
    with tempfile.TemporaryDirectory(prefix="gpuprof-gpu-", ignore_cleanup_errors=True) as folder:
        work = Path(folder)
        (work / "runs").mkdir()
        (work / "pretended").mkdir()
        os.environ["FIGURES"] = str(work / "figures.jsonl")
        unpack_missing(work / "site")
        facts = machine()
        real = facts["driver_answers"]
        target, fixtures = targets(stamp, real=real, results=RESULTS, pretended=work / "pretended")
        result: dict[str, Any] = {"when": stamp.isoformat(timespec="seconds"), "machine": facts}
        result |= {} if real else {"pretended": True}
        result["parts"] = outcome = {}
        for name, part in parts(work).items():
            if name in wanted:
                left_s = WHOLE_S - (time.monotonic() - BEGUN)
                outcome[name] = {"status": "not ended", "seconds": 0.0, "tail": []}
                so_far = partial(keep, result, work, target)
                so_far()  # already now: whoever waits may lose patience
                try:
                    outcome[name] = run(name, part, left_s, work, so_far)
                finally:
                    so_far()
                    pack(work, fixtures)
                    hand_over(fixtures)
        summarize(result, target, fixtures)
    return sum(part["status"] != "passed" for part in outcome.values())


def has_gpu() -> bool:
    """Tell whether torch sees a GPU; say what is missing where it does not."""
    if not importlib.util.find_spec("torch"):
        print("Missing here: torch, for the GPU at hand. Nothing was measured.")
        return False
    import torch

    if not torch.cuda.is_available():
        print("No CUDA or ROCm device is visible to torch on this machine: nothing was measured.")
        driver = "answers" if driver_answers() else "does not answer"
        print(f"This is torch {torch.__version__}; the driver {driver}.")
    return torch.cuda.is_available()


def absent(modules: Any) -> list[str]:
    return [module for module in modules if not importlib.util.find_spec(module)]


def unpack_missing(site: Path) -> None:
    """Unpack what is missing and there is a wheel of, and put that on the import path."""
    names = NEEDED | BETTER_WITH
    for wheel in fitting(WHEELS, [names[module] for module in absent(names)]):
        zipfile.ZipFile(wheel).extractall(site)
    if site.is_dir():  # for this process and those that it starts
        sys.path.insert(0, str(site))
        importlib.invalidate_caches()
        os.environ["PYTHONPATH"] = joined(site)
    if still := [names[module] for module in absent(names)]:
        print(
            f"Missing here: {' '.join(still)}. Run `make wheels` where there is a network, bring "
            "the folder wheels/ into this checkout, and run this again."
        )


def fitting(folder: Path, names: list[str]) -> list[Path]:
    """Return the wheels of these packages that this Python can import."""
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    found = []
    for wheel in sorted(folder.glob("*.whl")):
        name, _, tag, abi, *_ = wheel.stem.split("-")
        fits = python in tag or "py3" in tag or abi == "abi3"
        if fits and name.replace("_", "-").lower() in names:
            found.append(wheel)
    return found


def joined(*folders: Path) -> str:
    """Return PYTHONPATH with more folders before what it has."""
    return os.pathsep.join(filter(None, [*map(str, folders), os.environ.get("PYTHONPATH")]))


def run(
    name: str, part: Part, left_s: float, work: Path, so_far: Callable[[], None]
) -> dict[str, Any]:
    """Run one part; whatever happens to it, say so and go on.

    Every few seconds what there is so far is kept.
    """
    if missing := absent((*NEEDED, *part.needs)):
        print(f"\n== {name}: left out, since {', '.join(missing)} cannot be imported here.")
        return {"status": f"left out: no {', '.join(missing)}", "seconds": 0.0, "tail": []}
    seconds = min(part.limit_s, left_s)
    if seconds < 10:
        print(f"\n== {name}: left out, since the parts before it took all {WHOLE_S} s.")
        return {"status": "left out: no time", "seconds": 0.0, "tail": []}
    print(f"\n== {name} ({seconds:.0f} s at most): {' '.join(part.arguments)}", flush=True)
    environment = os.environ | ALONE | {"PYTHONPATH": joined(ROOT, ROOT / "benchmarks")}
    log = work / f"{name}.log"
    begin = time.monotonic()
    with open(log, "wb") as file:
        try:
            process = subprocess.Popen(
                [sys.executable, *part.arguments],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            status = ended(process, begin + seconds, so_far)
        except OSError as error:
            status = f"could not be started: {error}"
    if status is None:
        status = f"stopped after {seconds:.0f} s"
    text = log.read_text(errors="replace")
    lines = text.splitlines()
    tail = lines[-12 if status == "passed" else -60 :]
    print("\n".join(tail), flush=True)
    row = {"status": status, "seconds": round(time.monotonic() - begin, 1), "tail": tail}
    found = re.search(r"^=+ (FAILURES|ERRORS) =+\n", text, re.MULTILINE)
    failures = text[found.end() :][:FAILURES_CHARS].splitlines() if found else []
    more = {"failures": failures, "stacks": last_stacks(lines)}
    return row | {key: value for key, value in more.items() if value}


def last_stacks(lines: list[str]) -> list[str]:
    """Return what Python wrote of its threads as it was ended; a line may have been begun then."""
    fatal = [at for at, line in enumerate(lines) if "Fatal Python error" in line]
    return lines[fatal[-1] :][:STACKS_LINES] if fatal else []


def ended(
    process: "subprocess.Popen[bytes]", until: float, so_far: Callable[[], None]
) -> str | None:
    """Wait for a part and return how it ended; None where it had to be stopped."""
    try:
        while (left_s := until - time.monotonic()) > 0:
            try:
                code = process.wait(timeout=min(left_s, KEEP_EVERY_S))
                return f"failed ({code})" if code else "passed"
            except subprocess.TimeoutExpired:
                so_far()
        process.send_signal(signal.SIGABRT)  # which has Python write where each thread is
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=STACKS_S)
        return None
    finally:
        # Its children would go on using the device beside the next part.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def machine() -> dict[str, Any]:
    import torch

    facts = torch.cuda.get_device_properties(0)
    return _harness.machine() | {
        "gpu": facts.name,
        "gpu_bytes": facts.total_memory,
        "gpus": torch.cuda.device_count(),
        "capability": list(torch.cuda.get_device_capability(0)),
        "driver_answers": driver_answers(),
        "driver": said(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]),
        "settings": said(["nvidia-smi", f"--query-gpu={SETTINGS}", "--format=csv,noheader"]),
        "cuda": torch.version.cuda,
        "cudnn": cudnn_version(),
        "hip": torch.version.hip,
    }


def cudnn_version() -> int | str | None:
    import torch

    try:
        return torch.backends.cudnn.version()
    except RuntimeError as error:  # it does not fit to torch: worth knowing, no reason to stop
        return str(error)


def said(command: list[str]) -> str | None:
    """Return the first line that a command prints; None where it fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.strip().splitlines()
    return lines[0] if lines and not done.returncode else None


if __name__ == "__main__":
    raise SystemExit(main())
