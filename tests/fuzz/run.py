"""`make fuzz`: a million damaged files, each within 5 s and 512 MiB; goes on where it stopped."""

import argparse
import datetime
import gc
import hashlib
import json
import resource
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from fuzz.mutate import seeded  # noqa: E402 - after the path
from fuzz.targets import Deep, Light  # noqa: E402 - after the path

from lightning_gpuprof.errors import GpuProfError  # noqa: E402 - after the path

MOST_S, MOST_BYTES = 5, 512 << 20
"""Of the processor's time: others may be at work on it. `HANGS_S` on the wall's clock is a hang."""
HANGS_S = 60
PER_DAMAGE = 8
"""Commands and routes that are tried on each damaged run."""


class TooSlowError(BaseException):
    """An execution took more than its time; no `except Exception` swallows it."""


class Fuzzer:
    """Counts executions and keeps what failed, by where.

    Args:
        folder: For files; gone afterwards.
        seed: Of all that is random, together with an execution's number.
    """

    def __init__(self, folder, seed):
        self.seed = seed
        self.light, self.deep = Light(folder), Deep(folder)
        self.failures, self.slowest_s = {}, 0.0
        signal.signal(signal.SIGALRM, self._stop)
        signal.signal(signal.SIGPROF, self._stop)

    @staticmethod
    def _stop(*_):
        raise TooSlowError

    def run_light(self, number):
        """Read one damaged file or its like."""
        rng = seeded(self.seed, "light", number)
        names = list(self.light.targets)
        name = rng.choice((*names, "records", "records", "analysis", "kineto", "kineto"))
        data, read = self.light.execution(name, rng)
        self._guarded(f"light {name} {number}", lambda: read(data))

    def run_deep(self, number):
        """Run a command or ask a route, each `PER_DAMAGE` times on another damaged run."""
        if number % PER_DAMAGE == 0 or not hasattr(self, "damaged"):
            self.damaged = number - number % PER_DAMAGE
            self.deep.damage(seeded(self.seed, "damage", self.damaged))
        rng = seeded(self.seed, "deep", number)
        self._guarded(f"deep {number}", lambda: self.deep.execution(rng))

    def _guarded(self, what, execution):
        began = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, MOST_S)
        signal.setitimer(signal.ITIMER_REAL, HANGS_S)
        try:
            execution()
        except GpuProfError:
            pass
        except (Exception, TooSlowError) as error:  # noqa: BLE001 - what failed is what is sought
            where = list(traceback.extract_tb(error.__traceback__))
            own = [one for one in where if "lightning_gpuprof/" in one.filename] or where
            at = f"{Path(own[-1].filename).name}:{own[-1].lineno} {error!r:.120}"
            self.failures.setdefault(at, []).append(what)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
            self.slowest_s = max(self.slowest_s, time.process_time() - began)


def limit_memory():
    """Let this process have `MOST_BYTES` more than it has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MOST_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))


def digest():
    """Return a checksum of the code that reads files and shows what is in them."""
    found = hashlib.sha256()
    for room in ("records", "traces", "views", "report", "cli", "tab"):
        for path in sorted((ROOT / "lightning_gpuprof" / room).rglob("*.py")):
            found.update(path.read_bytes())
    return found.hexdigest()[:12]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--light", type=int, default=1_000_000, help="files read in all")
    parser.add_argument("--deep", type=int, default=20_000, help="commands and requests in all")
    parser.add_argument("--seed", type=int, default=27)
    name = f"fuzz-{datetime.date.today()}.json"
    parser.add_argument("--state", type=Path, default=ROOT / "benchmarks" / "results" / name)
    args = parser.parse_args()
    document = json.loads(args.state.read_text()) if args.state.exists() else {"runs": []}
    new = {"code": digest(), "seed": args.seed, "light": 0, "deep": 0, "seconds": 0.0}
    new |= {"slowest_s": 0.0, "failures": {}, "limits": {"seconds": MOST_S, "bytes": MOST_BYTES}}
    same = [one for one in document["runs"] if (one["code"], one["seed"]) == (digest(), args.seed)]
    run = same[0] if same else new
    document["runs"] += [] if same else [run]
    began, spent = time.monotonic(), run["seconds"]
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").exists() else None) as made:
        fuzzer = Fuzzer(made, args.seed)
        limit_memory()
        gc.freeze()
        while run["light"] < args.light or run["deep"] < args.deep:
            for kind, most in (("light", args.light), ("deep", args.deep)):
                upto = min(most, run[kind] + (5_000 if kind == "light" else 100))
                for number in range(run[kind], upto):
                    getattr(fuzzer, f"run_{kind}")(number)
                run[kind] = max(run[kind], upto)
            for at, those in fuzzer.failures.items():
                known = run["failures"].setdefault(at, {"count": 0, "first": those[:3]})
                known["count"] += len(those)
            fuzzer.failures.clear()
            run["seconds"] = round(spent + time.monotonic() - began, 1)
            run["slowest_s"] = max(run["slowest_s"], round(fuzzer.slowest_s, 2))
            args.state.write_text(json.dumps(document, indent=1) + "\n")
    sys.stdout.write(json.dumps(run, indent=1) + "\n")
    return 1 if run["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
