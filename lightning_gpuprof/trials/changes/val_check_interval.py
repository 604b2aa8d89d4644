"""Validates less often. The arithmetic of the finding gives the gain, so there is no trial."""

from lightning_gpuprof.trials.change import Change

CHANGE = Change(
    values=lambda run: "validation takes little of the time",
    findings=("frequent-validation",),
    alters="validations, and what follows them (checkpoints, early stops), come less often",
    computed=True,
)
