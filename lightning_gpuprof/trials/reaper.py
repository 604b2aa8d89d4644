"""Outlives `try` for a moment: ends its children and removes its folder, however it ended.

`python reaper.py FOLDER` reads `+PID` and `-PID` of process groups until its input ends.
"""

import os
import shutil
import signal
import sys
from contextlib import suppress

if __name__ == "__main__":
    groups: set[int] = set()
    for line in sys.stdin:
        (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
    for group in groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    for _ in range(3):  # what was being written as it was killed may still appear
        shutil.rmtree(sys.argv[1], ignore_errors=True)
