"""All rules: the modules of `rules/`, and the rows of facts.toml."""

import pkgutil
from functools import cache
from importlib import import_module

from lightning_gpuprof.findings.facts import facts
from lightning_gpuprof.findings.rule import Rule

PACKAGE = "lightning_gpuprof.findings.rules"


@cache
def rules() -> dict[str, Rule]:
    """Return all rules by id, in alphabetical order."""
    every = [*rules_in(PACKAGE), *(fact.rule() for fact in facts())]
    return {rule.id: rule for rule in sorted(every, key=lambda rule: rule.id)}


def rules_in(package: str) -> list[Rule]:
    """Return the rules that the modules of a package define."""
    names = [module.name for module in pkgutil.iter_modules(import_module(package).__path__)]
    modules = [import_module(f"{package}.{name}") for name in names]
    objects = [item for module in modules for item in vars(module).values()]
    return [item for item in objects if isinstance(item, Rule)]
