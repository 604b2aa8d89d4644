import torch
from look_models import Attending, Model

from lightning_gpuprof.probes.looks.function_calls import FunctionCalls
from lightning_gpuprof.probes.looks.function_mode import Watching, may_be_fast


class Reading(Attending):
    def inside(self, x):
        y, weights = self.attention(x[None], x[None], x[None], need_weights=self.need)
        return self.layer(y) * weights.mean()


def test_attention_asked_for_weights_that_nobody_reads_is_tried(look):
    found = look(Attending()).unread
    # One batch, 4 heads, 4 by 4 positions of 4 bytes.
    assert (found.calls, found.weight_bytes) == (1, 256)
    assert (found.with_ns, found.without_ns) == (10, 10)
    assert found.places[0].line > 0


def test_of_attention_on_a_device_only_shapes_are_kept():
    attention = torch.nn.MultiheadAttention(32, 4, device="meta")
    x = torch.zeros(5, 2, 32, device="meta")
    calls = FunctionCalls(attention)
    watching = Watching(calls.seen, lambda: 0)
    watching.start()
    _, _ = attention(x, x, x)
    watching.stop()
    ((_, args, kwargs, _),) = calls.attention
    kept = [one for one in (*args, *kwargs.values()) if isinstance(one, torch.Tensor)]
    assert x.shape in {one.shape for one in kept}
    assert not {id(one) for one in kept} & {id(x), *map(id, attention.parameters())}


def test_weights_that_are_read_or_not_asked_for_are_well(look):
    assert look(Reading()).unread is None
    assert look(Attending(need=False)).unread is None


class Taught(Model):
    """Learns from an encoder in evaluation mode, which takes torch's fast path."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.teacher = torch.nn.TransformerEncoderLayer(32, 4, batch_first=True).eval()
        self.teacher.requires_grad_(False)
        self.outputs = []

    def inside(self, x):
        with torch.no_grad():
            x = self.teacher(x[None])[0]
        self.outputs.append(x)
        return self.layer(x)


def test_where_attention_may_take_a_faster_path_there_is_no_look(look):
    model, alone = Taught(), Taught()
    assert look(model) is None
    look(alone, watch=False)
    assert torch.equal(torch.stack(model.outputs), torch.stack(alone.outputs))


def test_attention_that_trains_has_no_faster_path():
    layer = torch.nn.TransformerEncoderLayer(8, 2)
    assert not may_be_fast(layer)
    assert may_be_fast(torch.nn.Sequential(layer.eval()))


class Lowered(Attending):
    def __init__(self):
        super().__init__()
        self.before = torch.nn.Linear(32, 32)

    def inside(self, x):
        return super().inside(self.before(x))


def test_attention_is_tried_under_autocast_as_well(look):
    assert look(Lowered(), precision="bf16-mixed").unread.calls == 1
