"""Advice for lines that make the host wait for the device. Does not import torch."""

from lightning_gpuprof.records.schema import SyncSite

PAGEABLE_COPY = "pageable copy"
"""What the result of an inspection calls a copy from pageable memory to the device."""
_SCALER_FILE = "precision/amp.py"
"""The file in which Lightning calls the gradient scaler. In manual optimization the user's own code
calls it."""

READ = (
    "keep the value as a tensor and read it later: total += loss.detach(), or use DeferredLoss or "
    "DeferredScalars"
)
"""The advice for any line that reads a value."""
LOGGED_NUMBER = (
    "self.log copies a number to the device, and the copy waits: log a tensor on the device, "
    "such as torch.full((), number, device=self.device), or pass the number to "
    "self.logger.log_metrics"
)
SCALER = (
    "the gradient scaler reads in every step whether a gradient overflowed: "
    "precision='bf16-mixed' needs no scaler"
)
STEP_CALLS = (
    "the optimizer or the scheduler reads a value: LBFGS and ASGD always do, ReduceLROnPlateau in "
    "every step only with interval='step'; in manual optimization with precision='16-mixed' the "
    "gradient scaler does, which 'bf16-mixed' does not need"
)
LIGHTNING = (
    "use DeferredLoss and DeferredProgressBar for the values of every step, and leave out "
    "prog_bar=True and on_step=True"
)
BY_OWNER = {
    "dataloader": "return host tensors from the dataset and set pin_memory=True: the Trainer moves "
    "the batch without waiting",
    "metric": "compare and branch on the device (torch.where, clamp) in update(), or set "
    "validate_args=False",
}
BY_OPERATION = {
    PAGEABLE_COPY: "create the tensor on the device once, in __init__ (register_buffer); make a "
    "tensor of a single number with torch.full(..., device=...); or copy from pinned memory with "
    ".to(device, non_blocking=True)",
    "boolean mask": "keep the shape: torch.where(mask, x, 0), or masked_fill",
    "masked_select": "keep the shape: torch.where(mask, x, 0), or masked_fill",
    "nonzero": "keep the mask as it is and weight by it: (x * mask).sum() / mask.sum()",
    "where": "keep the mask as it is: torch.where(mask, x, y) with all three arguments",
    "unique": "count into a fixed number of bins (torch.zeros(n).scatter_add_) or do it on the "
    "host while loading",
    "repeat_interleave": "pass output_size=...",
    "synchronize": "remove it, or wait for a single stream: "
    "torch.cuda.current_stream().synchronize(); to time the device use "
    "torch.cuda.Event(enable_timing=True)",
    "stream.synchronize": "wait for an event that is recorded after the work you need, or test "
    "event.query() and go on",
    "event.synchronize": "test event.query() and go on, or wait where the value is used",
    "print": "print once in many steps, or add the value to DeferredScalars",
    "bool": "decide on the device (torch.where), or once in many steps",
    "equal": "compare on the device: (a == b).all() stays a tensor",
}


def advice(site: SyncSite) -> str:
    """Return what to write in the place of a line that makes the host wait.

    The advice depends on the operation and on the owner of the line.
    """
    operations = site.operation.split(", ")
    if site.owner == "lightning":
        return _advice_for_lightning(site, operations)
    return BY_OWNER.get(site.owner) or BY_OPERATION.get(operations[0], READ)


def _advice_for_lightning(site: SyncSite, operations: list[str]) -> str:
    """Return the advice for a line of Lightning's, which only a setting or other values change."""
    if site.file.replace("\\", "/").endswith(_SCALER_FILE):
        return SCALER
    if ".step(" in site.source:
        return STEP_CALLS
    advised: list[str] = []
    if PAGEABLE_COPY in operations:
        advised.append(LOGGED_NUMBER)
    if operations != [PAGEABLE_COPY]:
        advised.append(LIGHTNING)
    return "; ".join(advised)
