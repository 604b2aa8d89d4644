"""`python -m lightning_gpuprof.cli` runs the command with this interpreter."""

import sys

from lightning_gpuprof.cli import entry

if __name__ == "__main__":
    sys.exit(entry())
