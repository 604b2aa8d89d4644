"""The old name of `lightning_gpuprof.session.log_dir`, until its importers have moved."""

import sys

from lightning_gpuprof.session.log_dir import *  # noqa: F403 - see above

sys.modules[__name__] = sys.modules["lightning_gpuprof.session.log_dir"]
