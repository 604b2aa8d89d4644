"""Outlives `try` for a moment: ends its child processes and removes its folder, however it ended.

`python reaper.py FOLDER` reads lines `+PID` and `-PID`, which add and remove a process group, until
its input ends.
"""

import os
import shutil
import signal
import sys
from contextlib import suppress

if __name__ == "__main__":
    groups: set[int] = set()
    for line in sys.stdin:
        group = int(line[1:])
        if line[0] == "+":
            groups.add(group)
        else:
            groups.discard(group)
    for group in groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    # A file that was being written when its process was killed may still appear after a removal.
    for _ in range(3):
        shutil.rmtree(sys.argv[1], ignore_errors=True)
