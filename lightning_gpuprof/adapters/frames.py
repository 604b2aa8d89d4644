"""Names of private functions by which frames on a stack are known.

Seen in torch 2.2 to 2.13 and Lightning 2.4 to 2.6. Where one is missing, lines are still named, but
without the hook, the module's call or the worker that they are in.
"""

CALLBACK_HOOKS = "_call_callback_hooks"
MODULE_HOOK = "_call_lightning_module_hook"
STRATEGY_HOOK = "_call_strategy_hook"
"""Lightning's functions that call hooks, in `trainer/call.py`."""
HOOK_CALLERS = (MODULE_HOOK, STRATEGY_HOOK, CALLBACK_HOOKS)
LOGGER_CONNECTOR = "_LoggerConnector"
"""Lightning's class between `self.log` and the loggers."""
MODULE_CALL = "_call_impl"
"""`torch.nn.Module`'s function that calls `forward`."""
WORKER_LOOP = "_worker_loop"
"""torch's function that a DataLoader's worker runs; loaders made after it have one so named."""
