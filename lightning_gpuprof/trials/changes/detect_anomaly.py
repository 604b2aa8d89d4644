"""Trains without autograd's anomaly detection. Results stay; the place of a NaN is not named."""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.host_work import anomaly_on
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.trials import ChangedSettings
from lightning_gpuprof.trials.change import PASSES, Change, Values


def _values(run: RunResults) -> Values:
    return [False] if anomaly_on(run) else "it is off"


CHANGE = Change(
    values=_values,
    write=lambda value, run: ChangedSettings(
        lines=(f"torch.autograd.set_detect_anomaly({value})",)
    ),
    phases=(*PASSES, Phase.OPTIMIZER_STEP),
    findings=("anomaly-detection-on",),
)
