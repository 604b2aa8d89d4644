"""Whether code asks while it is being compiled."""

import runpy

import torch

from lightning_gpuprof.adapters import dynamo as adapter


def test_it_is_torchs_own_question_which_dynamo_knows():
    assert adapter.is_compiling is torch.compiler.is_compiling


def test_torch_2_2_has_none_and_is_not_asked(monkeypatch):
    monkeypatch.delattr(torch.compiler, "is_compiling")
    assert runpy.run_path(adapter.__file__)["is_compiling"]() is False
