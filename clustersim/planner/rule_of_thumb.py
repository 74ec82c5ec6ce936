"""A published rule of thumb for layouts, which the best of a plan is compared with.

Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM" (SC21), section 5.4:
tensor parallelism within a host first, pipeline parallelism across hosts for larger models, both only as far as the
model needs them to fit in memory, and data parallelism on all other GPUs. Here the micro-batch is the largest that
fits, with the least recomputation that fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

from clustersim.planner.queue import Family
from clustersim.planner.space import ALL_RECOMPUTES, Choice

RULE_OF_THUMB = (
    "tensor parallel in a host, then pipeline parallel, both only as far as memory needs it; data parallel otherwise; "
    "the largest micro-batch that fits (Narayanan et al., SC21)"
)


def rules_of_thumb(families: Iterable[Family], first_that_fits: Callable[[Family], Choice | None]) -> list[Choice]:
    """Return the layout of the rule for each number of GPUs and batch of a search space, if one of its layouts fits.

    `first_that_fits` returns the layout of a family with the least recomputation that fits. What the rule does not
    speak of is as plain as the space allows: no experts or tokens split, 1F1B, no sharding.
    """
    found = []
    for _, own in groupby(families, key=lambda family: (family[0].num_gpus, family[0].batch)):
        plain = _plain(list(own))
        for _, alike in groupby(sorted(plain, key=_split), key=_split):
            fitting = [choice for choice in map(first_that_fits, alike) if choice is not None]
            if fitting:
                found.append(min(fitting, key=_preference))
                break
    return found


def _plain(families: Sequence[Family]) -> list[Family]:
    """Return families without what the rule does not speak of, as far as the space has such."""
    plainest = min(map(_extras, families))
    return [family for family in families if _extras(family) == plainest]


def _extras(family: Family) -> tuple[object, ...]:
    """Return what the rule does not speak of, the least first."""
    layout, grid = family[0].layout, family[0].grid
    ways = layout.expert_exchange, layout.context_method, layout.offload != "none", layout.offload
    shared = layout.sharding or "", layout.sharding_over or 0
    return (grid.expert * grid.context, *ways, *shared, layout.sequence_parallel)


def _split(family: Family) -> tuple[object, ...]:
    """Return over how many GPUs the model is split: fewer come first, and in a host before in stages."""
    layout, grid = family[0].layout, family[0].grid
    is_other = layout.schedule != "1f1b" and grid.pipeline > 1
    return (grid.tensor * grid.pipeline, grid.pipeline, is_other, layout.schedule, layout.chunks)


def _preference(choice: Choice) -> tuple[int, int]:
    return (ALL_RECOMPUTES.index(choice.layout.recompute), choice.layout.micro_batches)
