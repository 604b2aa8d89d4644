"""Puts the program of `lightning-gpuprof demo` into the wheel; in a clone it is where it is."""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class DemoHook(BuildHookInterface[Any]):
    """Adds example_projects/char_lm to wheels, except to editable ones."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name what the wheel holds beside the package."""
        if version != "editable":
            build_data["force_include"]["example_projects/char_lm"] = (
                "lightning_gpuprof/cli/char_lm"
            )
