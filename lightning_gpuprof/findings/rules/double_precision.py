"""The model computes in 64-bit precision although nobody asked for it.

## Symptom
Most parameters are float64, while neither the Trainer nor torch's default type asks for it.

## Why
numpy computes in float64. If a dataset passes its arrays on unchanged and the model is made to fit
them by `.double()`, every tensor takes twice the bytes. A CPU computes half as fast, and most GPUs
32 to 64 times slower.

## Fix
Convert the data once. Keep float64 for the few sums that need it.

```python
torch.from_numpy(array)  # before
torch.from_numpy(array.astype("float32"))  # after
```

## How it is measured
`double_frac` is the share of parameter tensors in float64. `operators_ns` is the time in a trace in
operators whose arithmetic matters. On a CPU, 30% to 60% of it is saved.

## Limits
The rule is silent if gradients are differentiated again, because float64 is often intended there.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.settings import settings_of
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.analysis.savings.graph_passes import second_order
from lightning_gpuprof.analysis.savings.hidden import faster_kernels
from lightning_gpuprof.analysis.savings.host_work import host_work
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Range
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.units import duration, percent

MOST_FRAC = 0.5
LOW_FRAC, HIGH_FRAC, HIGH_GPU_FRAC = 0.3, 0.6, 0.97
EFFORT = Effort(Horizon.QUICK, "the data in float32, no .double()", "losses differ: compare them")


@rule(id="double-precision", needs=("steps", "model", "operators"), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the finding about a model in float64 that nothing asks for."""
    settings, step_ns = settings_of(run.start), measured(run.step_ns)
    share = settings.dtypes.get("float64", 0) / max(1, sum(settings.dtypes.values()))
    facts, work = measured(trace_facts(run)), host_work(run)
    wanted = (settings.precision or "").startswith("64") or settings.default_dtype == "float64"
    if share < MOST_FRAC or wanted or second_order(facts) or work is None:
        return None
    if run.on_gpu:  # here operators only launch kernels, which takes as long in any type
        operators_ns = round(facts.device_step.compute_ns) if facts.device_step else 0
        bounds = (share * operators_ns for share in (LOW_FRAC, HIGH_GPU_FRAC))
        saving = Range(*faster_kernels(run, step_ns, *bounds))
    else:
        operators_ns = min(work.long_ns, work.compute_ns)
        saving = Range(low=round(LOW_FRAC * operators_ns), high=round(HIGH_FRAC * operators_ns))
    if not operators_ns:
        return None
    return Finding(
        title=f"{percent(share)} of the parameters are float64: {duration(operators_ns)} "
        "of each step",
        advice="Convert the data to float32 where it is made, and remove .double(). Keep float64 "
        "for the few sums that need it.",
        evidence={"double_frac": share, "operators_ns": operators_ns},
        saving_ns=saving,
        cause_ns=Range(operators_ns, operators_ns),
        confidence=0.8,
        change='array.astype("float32")  # in the dataset; and no model.double()',
    )
