"""Advice for a line that makes the host wait, by its operation and its owner. Without torch."""

from lightning_gpuprof.records.schema import SyncSite

PAGEABLE_COPY = "pageable copy"
"""The operation's name in the rows of an inspection."""
_BY_OWNER = {
    "lightning": "use DeferredLoss and DeferredProgressBar for values of each step, and leave out "
    "prog_bar=True and on_step=True",
    "dataloader": "return host tensors from the dataset and set pin_memory=True: the Trainer "
    "moves the batch without waiting",
    "metric": "compare and branch on the device (torch.where, clamp) in update(), or set "
    "validate_args=False",
}
_BY_OPERATION = {
    PAGEABLE_COPY: "make the tensor on the device once, in __init__ (register_buffer), or of one "
    "number by torch.full(..., device=...), or use .to(device, non_blocking=True) on pinned memory",
    "boolean mask": "keep the shape: torch.where(mask, x, 0), or masked_fill",
    "masked_select": "keep the shape: torch.where(mask, x, 0), or masked_fill",
    "nonzero": "keep the mask as it is and weight by it: (x * mask).sum() / mask.sum()",
    "where": "keep the mask as it is: torch.where(mask, x, y) with all three arguments",
    "unique": "count into a fixed number of bins (torch.zeros(n).scatter_add_) or do it on the "
    "host while loading",
    "repeat_interleave": "pass output_size=...",
    "synchronize": "remove it; to time the device use torch.cuda.Event(enable_timing=True)",
    "print": "print once in many steps, or hand the value to DeferredScalars",
    "bool": "decide on the device (torch.where), or once in many steps",
    "equal": "compare on the device: (a == b).all() stays a tensor",
}
_NUMBER = (
    "of a number self.log makes a tensor on the device by a copy that waits: log a tensor that is "
    "there, torch.full((), number, device=self.device), or give the number to "
    "self.logger.log_metrics"
)
_SCALER = (
    "the gradient scaler asks in each step whether a gradient overflowed: precision='bf16-mixed' "
    "needs no scaler"
)
_SCALER_FILE = "precision/amp.py"
"""Where Lightning calls it; in manual optimization it is the program's own line that does."""
_STEPS = (
    "the optimizer or scheduler reads a value: ReduceLROnPlateau in each step only with "
    "interval='step', LBFGS and ASGD by themselves; in manual optimization with "
    "precision='16-mixed' it is the gradient scaler, without which 'bf16-mixed' does"
)
_READ = "keep the tensor: total += loss.detach(), or DeferredLoss / DeferredScalars; read it later"


def advice(site: SyncSite) -> str:
    """Return the replacement for a line that makes the host wait."""
    operations = site.operation.split(", ")
    if site.owner == "lightning":
        return _lightnings(site, operations)
    if site.owner in _BY_OWNER:
        return _BY_OWNER[site.owner]
    return _BY_OPERATION.get(operations[0], _READ)


def _lightnings(site: SyncSite, operations: list[str]) -> str:
    if site.file.replace("\\", "/").endswith(_SCALER_FILE):
        return _SCALER
    if ".step(" in site.source:
        return _STEPS
    copied = PAGEABLE_COPY in operations
    read = not copied or len(operations) > 1
    return "; ".join([_NUMBER] * copied + [_BY_OWNER["lightning"]] * read)
