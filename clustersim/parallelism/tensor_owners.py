"""The replica that has the optimizer state of each tensor, if state is sharded in whole tensors."""

from __future__ import annotations

from collections.abc import Sequence

_OVER_ITS_SHARE = 1.01
"""How far above an equal share a replica is filled in order; InternLM's `ParamBcastSyncHandler`."""


def assign_owners(sizes: Sequence[float], num: int, in_order: bool) -> list[int]:
    """Return which of `num` replicas owns each tensor, given the tensors' parameters in the model's order.

    The largest tensor first, each to the replica with the fewest parameters so far, as in PyTorch's
    ZeroRedundancyOptimizer (`_partition_parameters` in torch/distributed/optim/zero_redundancy_optimizer.py). If
    weights are awaited in the model's order they are assigned `in_order`: a replica takes tensors until the next one
    would exceed an equal share; that one goes to the next replica and does not count in its share, as in InternLM
    (`ParamBcastSyncHandler` in internlm/solver/optimizer/utils.py). Since tensors are whole, large ones leave some
    replicas with nothing.

    >>> assign_owners([4.0, 1.0, 3.0, 2.0], 2, in_order=False), assign_owners([4.0, 1.0, 3.0, 2.0], 2, in_order=True)
    ([0, 0, 1, 1], [0, 0, 1, 1])
    """
    return _in_order(sizes, num) if in_order else _largest_first(sizes, num)


def largest_share(sizes: Sequence[float], num: int, in_order: bool) -> float:
    """Return the largest fraction of all parameters that a replica owns; 1 if there are none.

    >>> largest_share([6.0, 1.0, 1.0], 4, in_order=False)
    0.75
    """
    held = [0.0] * num
    for owner, size in zip(assign_owners(sizes, num, in_order), sizes, strict=True):
        held[owner] += size
    return max(held) / sum(held) if sum(held) else 1.0


def _largest_first(sizes: Sequence[float], num: int) -> list[int]:
    held, owners = [0.0] * num, [0] * len(sizes)
    for number in sorted(range(len(sizes)), key=lambda each: -sizes[each]):
        owners[number] = held.index(min(held))
        held[owners[number]] += sizes[number]
    return owners


def _in_order(sizes: Sequence[float], num: int) -> list[int]:
    most, owner, held, owners = sum(sizes) / num * _OVER_ITS_SHARE, 0, 0.0, []
    for size in sizes:
        held += size
        if held > most and owner < num - 1:
            owner, held = owner + 1, 0.0
        owners.append(owner)
    return owners
