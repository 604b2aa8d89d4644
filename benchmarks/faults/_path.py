"""Puts the benchmarks folder on the import path; imported first by the scripts of this folder."""

import sys
from pathlib import Path

for folder in (Path(__file__).parent, Path(__file__).parents[1]):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
