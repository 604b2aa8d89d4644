from types import SimpleNamespace

import torch

from lightning_gpuprof.probes.looks.padding_line import padding_line


def collate(samples):
    # zeros(...) in a comment is no line
    out = torch.zeros(len(samples), 50)
    return out


class Pad:
    def __call__(self, samples):
        return [sample + [0] * (50 - len(sample)) for sample in samples]


class Texts:
    def __getitem__(self, i):
        text = "a text"
        return self.tokenizer(text, max_length=512)


def line(**parts):
    place = padding_line(SimpleNamespace(**parts))
    return place and place.source


def test_the_line_that_makes_the_batch_is_named():
    assert line(collate_fn=collate) == "out = torch.zeros(len(samples), 50)"


def test_a_callable_object_that_fills_a_list_up_is_read_as_well():
    assert line(collate_fn=Pad()).startswith("return [sample + [0] *")


def test_a_tokenizers_length_comes_before_what_only_fills():
    assert line(collate_fn=collate, dataset=Texts()).endswith("max_length=512)")


def test_torchs_own_collate_is_not_the_programs():
    assert line(collate_fn=torch.utils.data.default_collate, dataset=[]) is None
