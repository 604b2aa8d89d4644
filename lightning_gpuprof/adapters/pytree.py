"""Walks over nested containers.

Private module, seen in torch 2.2 to 2.13: torch.utils._pytree (tree_leaves from 2.2 on).
"""

from torch.utils._pytree import tree_leaves, tree_map

__all__ = ["tree_leaves", "tree_map"]
