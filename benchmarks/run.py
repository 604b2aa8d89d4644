"""Runs every benchmark, one after the other; each writes its dated JSON into benchmarks/results.

    python benchmarks/run.py [NAME ...]     # such as: overhead trace_engine tab

Run it on a machine that does nothing else. `make bench` runs them all.
"""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
BENCHMARKS = {
    "overhead": "cost/overhead.py",
    "capture": "cost/capture.py",
    "plan": "plan.py",
    "memory": "on_gpu/gpu_memory.py",
    "records": "reading/records.py",
    "straggler": "straggler.py",
    "lines": "lines.py",
    "trace_engine": "reading/trace_engine.py",
    "rank_traces": "reading/rank_traces.py",
    "tab": "reading/tab.py",
    "since_when": "since_when/run.py",
    "faults": "faults/run.py",
}


def main() -> int:
    wanted = sys.argv[1:] or list(BENCHMARKS)
    unknown = sorted(set(wanted) - set(BENCHMARKS))
    if unknown:
        print(f"No benchmark is called {', '.join(unknown)}. There are: {', '.join(BENCHMARKS)}.")
        return 2
    failed = []
    for name in wanted:
        print(f"\n== {name} ==", flush=True)
        if subprocess.run([sys.executable, str(HERE / BENCHMARKS[name])]).returncode:
            failed.append(name)
    if failed:
        print(f"\nFailed: {', '.join(failed)}")
    return len(failed)


if __name__ == "__main__":
    raise SystemExit(main())
