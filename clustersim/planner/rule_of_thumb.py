"""A published rule of thumb for layouts, which the best of a plan is compared with.

Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM" (SC21), section 5.4:
tensor parallelism within a host first, pipeline parallelism across hosts for larger models, both only as far as the
model needs them to fit in memory, and data parallelism on all other GPUs. Here the micro-batch is the largest that
fits, with the least recomputation that fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from clustersim.planner.space import RECOMPUTES, Choice

RULE_OF_THUMB = (
    "tensor parallel in a host, then pipeline parallel, both only as far as memory needs it; data parallel otherwise; "
    "the largest micro-batch that fits (Narayanan et al., SC21)"
)


def rules_of_thumb(families: Iterable[Sequence[Choice]], fits: Callable[[Choice], bool]) -> list[Choice]:
    """Return the layout of the rule for each number of GPUs and batch of a search space, if one of its layouts fits.

    What the rule does not speak of is as plain as the space allows: no experts or tokens split, 1F1B, no sharding.
    """
    found: list[Choice] = []
    layouts = [choice for family in families for choice in family]
    for _, own in groupby(layouts, key=lambda choice: (choice.num_gpus, choice.batch)):
        found += _first(own, fits)
    return found


def _first(layouts: Iterable[Choice], fits: Callable[[Choice], bool]) -> Iterator[Choice]:
    """Yield the first layout in the order of the rule that fits."""
    for choice in _in_order(list(layouts)):
        if fits(choice):
            yield choice
            return


def _in_order(layouts: Sequence[Choice]) -> list[Choice]:
    """Return layouts in the order in which the rule tries them, without those that it does not speak of."""
    plainest = min(map(_extras, layouts))
    plain = [choice for choice in layouts if _extras(choice) == plainest]
    return sorted(plain, key=_rank)


def _extras(choice: Choice) -> tuple[object, ...]:
    """Return what the rule does not speak of, the least first."""
    layout, grid = choice.layout, choice.grid
    split = grid.expert * grid.context, layout.context_method
    return (*split, layout.offload, layout.sharding or "", layout.sharding_over or 0, layout.sequence_parallel)


def _rank(choice: Choice) -> tuple[object, ...]:
    layout, grid = choice.layout, choice.grid
    is_other = layout.schedule != "1f1b" and grid.pipeline > 1
    split = grid.tensor * grid.pipeline, grid.pipeline
    return (*split, is_other, layout.chunks, RECOMPUTES.index(layout.recompute), layout.micro_batches)
