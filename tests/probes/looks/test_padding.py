import torch

from lightning_gpuprof.probes.looks.padding import MOST_TENSORS, padded_in


def found(batch):
    return [(one.path, one.kind, one.width, int(one.needed)) for one in padded_in(batch)]


def ids(*lengths, width=20):
    rows = torch.zeros(len(lengths), width, dtype=torch.long)
    for row, length in zip(rows, lengths, strict=True):
        row[:length] = 7
    return rows


def test_whole_numbers_reach_to_the_longest_sample():
    assert found({"ids": ids(3, 9), "label": torch.zeros(2)}) == [("ids", "ids", 20, 9)]


def test_vectors_reach_to_the_longest_sample():
    x = torch.zeros(2, 30, 4)
    x[1, :11] = 1.0
    assert found((x,)) == [("0", "vectors", 30, 11)]


def test_another_padding_value_is_found_as_well():
    assert found(ids(3, 9) - 100) == [("", "ids", 20, 9)]


def test_what_is_filled_to_its_end_is_all_needed():
    assert found(ids(20, 3)) == [("", "ids", 20, 20)]


def test_other_shapes_are_not_looked_at():
    pictures, rows, mask = torch.zeros(2, 3, 32, 32), torch.zeros(2, 500), ids(3, 9).bool()
    assert found((pictures, rows, mask, ids(3, width=15), ids(5), "text")) == []


def test_tensors_that_are_not_plain_are_not_looked_at():
    class Own(torch.Tensor):
        pass

    nested = torch.nested.nested_tensor([torch.zeros(20, 4), torch.zeros(22, 4)])
    empty, own = torch.zeros(2, 30, 0), ids(3, 9).as_subclass(Own)
    assert found((empty, own, nested, ids(3, 9).to_sparse())) == []


def test_of_very_many_tensors_the_first_are_looked_at():
    assert len(found([ids(3, 9)] * 150)) == MOST_TENSORS
