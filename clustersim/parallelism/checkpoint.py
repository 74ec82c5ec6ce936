"""Bytes that each rank of a layout writes into a checkpoint: weights and optimizer state of its part of the model.

Ranks that have the same parameters write them once: the first rank writes everything, or every rank an equal share. If
replicas shard the optimizer state, no rank has all of it, and each writes its shard (PyTorch's distributed checkpoints
do so, and Megatron-LM's distributed optimizer).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clustersim.kernels import OptimizerSpec
from clustersim.model import Workload
from clustersim.parallelism.experts import OP
from clustersim.parallelism.layout import ModelLayout
from clustersim.parallelism.memory import MemoryRules, PartInMemory, stage_state
from clustersim.parallelism.pieces import Piece
from clustersim.parallelism.plan import Part
from clustersim.parallelism.spec import Parallelism


def checkpoint_bytes(
    laid_out: ModelLayout, layout: Parallelism, whole: Workload, optimizer: OptimizerSpec, by_all: bool
) -> np.ndarray:
    """Return the bytes that each rank writes [num_ranks]; with `by_all` replicas write equal shares.

    Replicas of an expert are along `data` and `context`; the fully connected layers of one-weird-trick have none.
    """
    grid, num_bytes = laid_out.grid, np.zeros(laid_out.grid.num_ranks)
    rules = MemoryRules(whole.batch, whole.precision, optimizer, weight_share=whole.model.weight_share)
    by_all |= layout.sharding is not None
    for ranks in grid.replica_groups(laid_out.replica_axes):
        parts = laid_out.parts_of(grid.stage(int(ranks[0])))
        total = _state_bytes(parts, rules)
        own = total * _own_share(parts, layout.kind == "one-weird-trick")
        _write(num_bytes, ranks, total - own, by_all)
        axes = () if layout.kind == "one-weird-trick" else ("context", "data")
        for group in dict.fromkeys(grid.replica_group(int(rank), axes) for rank in ranks) if own else ():
            _write(num_bytes, np.array(group), own, by_all)
    return num_bytes


def _write(num_bytes: np.ndarray, ranks: np.ndarray, size: float, by_all: bool) -> None:
    """Add to each rank an equal share of `size`, or all of it to the first rank."""
    if by_all:
        num_bytes[ranks] += size / len(ranks)
    else:
        num_bytes[ranks[0]] += size


def _state_bytes(parts: Sequence[Part], rules: MemoryRules) -> float:
    """Return the bytes of unsharded weights and optimizer state of parts."""
    state = stage_state([PartInMemory(part.pieces, 0.0, part.units, part.recomputes) for part in parts], rules)
    return state["weights"] + state["optimizer"]


def _own_share(parts: Sequence[Part], is_trick: bool) -> float:
    """Return the fraction of parameters that have fewer replicas: experts, or fully connected layers of the trick."""
    pieces = [piece for part in parts for piece in part.pieces]
    if is_trick:
        own = [piece for part in parts[1:] for piece in part.pieces]
    else:
        own = [piece for piece in pieces if piece.layer.op == OP]
    total = _num_parameters(pieces)
    return _num_parameters(own) / total if total else 0.0


def _num_parameters(pieces: Sequence[Piece]) -> float:
    return float(sum(piece.layer.num_parameters for piece in pieces))
