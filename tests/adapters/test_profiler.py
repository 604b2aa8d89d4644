"""Whether another profiler is active in the process."""

import weakref

import torch

from lightning_gpuprof.adapters.profiler import busy_profiler


class Owner:
    pass


def test_a_profiler_is_looked_for_among_objects_that_cannot_be_asked():
    owner = Owner()
    proxy = weakref.proxy(owner)
    kept = [proxy]
    del owner
    options = torch.profiler.schedule(wait=5, warmup=1, active=1)
    with torch.profiler.profile(schedule=options) as theirs:
        assert (
            busy_profiler() == "a torch.profiler.profile that was started and waits in its schedule"
        )
    del theirs
    assert busy_profiler() is None
    assert len(kept) == 1
