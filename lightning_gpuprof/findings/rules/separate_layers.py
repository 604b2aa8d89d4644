"""Many equal small layers are called one by one.

## What it measures
`layers_count`: how many layers of one kind and size (embeddings of one width; linear layers,
convolutions, norms) one function of the program calls in a batch, each with its own weight and with
an input of the same shape, and none with what another of them gave. Heads of several layers, or in
several blocks, count each time; `after_count` is how many other functions their results go through
before they meet: an activation, a loss of each, a query's product with its key.

## Why it matters
Each takes a call of a module, an operator, a node of the autograd graph with a gradient of its own,
and an update by the optimizer: tens of microseconds that have nothing to do with its few numbers.

## What to do
Hold the weights in one tensor. Tables: one `nn.Embedding` of all rows, with the first row of each
table added to its indices. Linear heads on one input: one `nn.Linear` with all outputs, split
after; heads of attention so, too, then `F.scaled_dot_product_attention` once for all. On different
inputs: `torch.einsum` or `torch.bmm` with stacked weights, a grouped convolution.

## Thresholds
`LEAST_LAYERS` (`looks/separate.py`), 8: fewer are little to save. Each layer but one takes
`CALL_LOW_NS` to `CALL_HIGH_NS` forward and backward, each function after it `AFTER_LOW_NS` to
`AFTER_HIGH_NS` (docs/adr/0031), and where the optimizer updates tensors one by one half to all of
what it takes for each tensor of the model, as many as each layer has (a weight, and a bias where it
has one). What the layers compute stays. One table in place of many made a program slower (docs/adr/
0031), and on a GPU the host may be ahead: there the low bound is 0. Severity: the common scale
(`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.host_work import parameter_tensors
from lightning_gpuprof.findings.grade import by_host, grade
from lightning_gpuprof.findings.looked import looked
from lightning_gpuprof.findings.model import Effort, Finding, Horizon
from lightning_gpuprof.findings.places import in_forward
from lightning_gpuprof.records.function_calls import FunctionNotes, SeparateLayers
from lightning_gpuprof.records.phases import Phase

ID = "separate-layers"
EFFORT = Effort(Horizon.MEDIUM, "one tensor of weights for all", "checkpoints name other weights")
CALL_LOW_NS, CALL_HIGH_NS = 15_000, 40_000
AFTER_LOW_NS, AFTER_HIGH_NS = 4_000, 15_000
UPDATE_LOW_FRAC = 0.5
ADVICE = (
    "Keep their weights in one layer and call that once: one embedding table (add each table's "
    "first row to its indices), one linear layer whose output is split, or groups=..."
)
ATTENTION_ADVICE = (
    "If these are heads of attention, keep the queries, keys and values of all heads in one linear "
    "layer, split what it gives, and call F.scaled_dot_product_attention once for all heads."
)
_CHANGES = dict(
    embedding="all_rows = nn.Embedding(sum(rows), width)  # in __init__\n"
    "all_rows(indices + first_row_of_each).flatten(1)  # in place of torch.cat",
    linear="all_heads = nn.Linear(inside, layers * outside)  # in __init__, for one input\n"
    "all_heads(x).unflatten(-1, (layers, outside))",
)
_ATTENTION = """all_heads = nn.Linear(width, 3 * heads * size, bias=False)  # in __init__
query, key, value = all_heads(x).unflatten(-1, (3, heads, size)).permute(2, 0, 3, 1, 4)
out = F.scaled_dot_product_attention(query, key, value)  # is_causal=, scale= as yours
out.transpose(1, 2).flatten(2)  # in place of torch.cat"""


@looked(ID)
def evaluate(run: RunResults, step_ns: int, seen: FunctionNotes) -> tuple[Finding, ...]:
    """Return a finding for each line that calls many equal layers."""
    return tuple(_finding(run, step_ns, one) for one in seen.separate)


def _finding(run: RunResults, step_ns: int, one: SeparateLayers) -> Finding:
    less, update_ns = one.layers - 1, _update_ns(run, one)
    low = one.depth * (CALL_LOW_NS + UPDATE_LOW_FRAC * update_ns) + one.after * AFTER_LOW_NS
    high = one.depth * (CALL_HIGH_NS + update_ns) + one.after * AFTER_HIGH_NS
    unsure = run.on_gpu or one.kind == "embedding"
    saving = by_host(round(less * low), round(less * high), step_ns, unsure=unsure)
    shape = " x ".join(map(str, one.weight))
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"{_many(one)} layers ({one.kind}, {shape}) are called one by one",
        advice=ATTENTION_ADVICE if one.attends else ADVICE,
        evidence={
            "layers_count": one.layers * one.depth,
            "after_count": one.layers * one.after,
            "call_ns": one.call_ns,
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.5 if unsure else 0.8,
        where=in_forward([one.place]),
        change=_ATTENTION if one.attends else _CHANGES.get(one.kind),
    )


def _many(one: SeparateLayers) -> str:
    return f"{one.layers}" if one.depth == 1 else f"{one.depth} times {one.layers}"


def _update_ns(run: RunResults, one: SeparateLayers) -> float:
    """Return what the optimizer takes for one layer's tensors."""
    optimizers = run.start.model.get("optimizers") or []
    step, tensors = run.per_step(Phase.OPTIMIZER_STEP), parameter_tensors(run)
    if step is None or not tensors or all(each.get("fused") for each in optimizers):
        return 0.0
    return one.tensors * step.mean_ns / tensors
