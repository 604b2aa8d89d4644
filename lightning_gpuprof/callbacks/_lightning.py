"""The old name of `lightning_gpuprof.adapters.lightning`, until its importers have moved."""

import sys

from lightning_gpuprof.adapters.lightning import *  # noqa: F403 - see above

sys.modules[__name__] = sys.modules["lightning_gpuprof.adapters.lightning"]
