"""TensorBoard imports this at its start: nothing heavy, and nothing that may stop it."""

import logging

from tensorboard.plugins import base_plugin
from typing_extensions import override

_log = logging.getLogger(__name__)


class GpuProfLoader(base_plugin.TBLoader):  # type: ignore[misc]  # tensorboard is untyped
    """Loads the PROFILE tab into TensorBoard.

    TensorBoard imports every installed plugin's loader without a guard: an error here would
    stop it for every user of the environment, so the plugin is imported only in `load`.
    """

    @override
    def load(self, context: base_plugin.TBContext) -> base_plugin.TBPlugin | None:
        """Return the plugin, or None with a warning where it cannot be loaded."""
        try:
            from lightning_gpuprof.tab.plugin import GpuProfPlugin

            return GpuProfPlugin(context)
        except (ImportError, AttributeError, TypeError, ValueError, OSError) as error:
            _log.warning(
                "The PROFILE tab of lightning_gpuprof is left out, it could not be loaded: %s. "
                "TensorBoard goes on without it; check with `pip check`.",
                error,
            )
            return None
