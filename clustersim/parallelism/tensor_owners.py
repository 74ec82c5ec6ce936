"""Which copy of a model has the state of which tensor, where state is shared out tensor by tensor."""

from __future__ import annotations

from collections.abc import Sequence

_OVER_ITS_SHARE = 1.01
"""How far above an equal share a copy is filled in order; InternLM's `ParamBcastSyncHandler`."""


def assign_owners(sizes: Sequence[float], num: int, in_order: bool) -> list[int]:
    """Return which of `num` copies each tensor goes to, given their parameters in the model's order.

    The largest first, each to the copy that has least so far, as PyTorch's ZeroRedundancyOptimizer does it
    (`_partition_parameters` in torch/distributed/optim/zero_redundancy_optimizer.py). Where weights are awaited in the
    model's order they are dealt `in_order`: a copy takes tensors until the next one would be more than an equal share,
    which goes to the copy after it beside such a share, as InternLM does it (`ParamBcastSyncHandler` in
    internlm/solver/optimizer/utils.py). Tensors being whole, large ones leave some copies with nothing.

    >>> dealt([4.0, 1.0, 3.0, 2.0], 2, in_order=False), dealt([4.0, 1.0, 3.0, 2.0], 2, in_order=True)
    ([0, 0, 1, 1], [0, 0, 1, 1])
    """
    return _in_order(sizes, num) if in_order else _largest_first(sizes, num)


def largest_share(sizes: Sequence[float], num: int, in_order: bool) -> float:
    """Return what the copy that has most has of all parameters; 1 of none.

    >>> fullest_share([6.0, 1.0, 1.0], 4, in_order=False)
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
