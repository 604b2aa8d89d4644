"""`python -m lightning_gpuprof.cli`: the same command, for this very interpreter."""

import sys

from lightning_gpuprof.cli import entry

if __name__ == "__main__":
    sys.exit(entry())
