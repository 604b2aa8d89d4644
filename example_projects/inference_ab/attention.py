"""Self-attention as a paper writes it, and the same weights through one fused call."""

import torch
from torch import Tensor, nn


class AttentionByHead(nn.Module):
    """Each head projects, scores and averages on its own; the heads are joined at the end."""

    def __init__(self, width: int = 256, heads: int = 8) -> None:
        super().__init__()
        part = width // heads
        self.queries = nn.ModuleList(nn.Linear(width, part) for _ in range(heads))
        self.keys = nn.ModuleList(nn.Linear(width, part) for _ in range(heads))
        self.values = nn.ModuleList(nn.Linear(width, part) for _ in range(heads))
        self.out = nn.Linear(width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return (batch, length, width) of tokens of that shape."""
        found = []
        for query, key, value in zip(self.queries, self.keys, self.values, strict=True):
            q, k, v = query(tokens), key(tokens), value(tokens)
            scores = q @ k.transpose(1, 2) / k.shape[-1] ** 0.5
            found.append(torch.softmax(scores, dim=-1) @ v)
        return self.out(torch.cat(found, dim=-1))


class FusedAttention(nn.Module):
    """The same function: one projection for all heads, one fused attention call."""

    def __init__(self, by_head: AttentionByHead) -> None:
        super().__init__()
        self.heads = len(by_head.queries)
        parts = [*by_head.queries, *by_head.keys, *by_head.values]
        self.weight = nn.Parameter(torch.cat([part.weight.detach() for part in parts]))
        self.bias = nn.Parameter(torch.cat([part.bias.detach() for part in parts]))
        self.out = by_head.out

    def forward(self, tokens: Tensor) -> Tensor:
        """Return (batch, length, width) of tokens of that shape."""
        projected = nn.functional.linear(tokens, self.weight, self.bias)
        split = projected.unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        found = nn.functional.scaled_dot_product_attention(*split)
        return self.out(found.transpose(1, 2).flatten(2))


def case() -> tuple[AttentionByHead, Tensor]:
    """Return the module in use and a batch, on the GPU where there is one."""
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return AttentionByHead().eval().to(device), torch.randn(4, 192, 256, device=device)
