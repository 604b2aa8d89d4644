"""Modules that hold what is not trained."""

import warnings

import torch

from lightning_gpuprof.probes.looks.unused_parts import FirstInput, owners


def test_a_scripted_module_is_left_alone():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        judge = torch.jit.script(torch.nn.Linear(2, 2))
    model = torch.nn.ModuleList([judge, torch.nn.Linear(2, 2)])
    found = owners(model, model.parameters())
    assert found == [model[1]]
    FirstInput(found).stop()
