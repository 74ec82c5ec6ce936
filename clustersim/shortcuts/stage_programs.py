"""Divides the program of each stage into the operations before its micro-batch cycles, each cycle, and those after."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

import numpy as np
import simpy

from clustersim.program.compute_sequence import ComputeSequence, merged_computes
from clustersim.program.loop import Loop, after_cycles
from clustersim.program.ops import Op, Pass, Program
from clustersim.shortcuts.micro_batch_cycle import MicroBatchCycles, RankCycles, SkippedCycles

MIN_CYCLES = 6
"""The fewest cycles that are examined: of fewer none can be skipped."""


class StagePrograms:
    """The programs of all stages, and the loop in each of them: `loops` is empty where no cycles are to be skipped.

    `stages` are those of the simulated ranks, by rank. With `keeps_ops`, lists of operations are kept for the other
    ranks of the stage. `link_bytes` returns the bytes that links have carried so far [num_links]. `skipped` are the
    cycles that were skipped so far.
    """

    def __init__(
        self,
        env: simpy.Environment,
        programs: Sequence[Program],
        loops: Sequence[Loop | None],
        stages: dict[int, int],
        link_bytes: Callable[[], np.ndarray],
        keeps_ops: bool,
    ):
        self._env, self._link_bytes, self._programs, self._stages = env, link_bytes, programs, stages
        known = [loop for loop in loops if loop is not None and loop.num_cycles >= MIN_CYCLES]
        are_alike = len(known) == len(programs) and len({loop.step for loop in known}) == 1
        self._loops = known if are_alike else []
        self._keeps_ops = keeps_ops
        self._kept: dict[Hashable, tuple[Op | ComputeSequence, ...]] = {}
        self._cycles: dict[int, MicroBatchCycles] = {}
        self.skipped: list[SkippedCycles] = []

    @property
    def step(self) -> int:
        """The number of micro-batches in a cycle; 0 without cycles."""
        return self._loops[0].step if self._loops else 0

    def cycles(self, iteration: int) -> MicroBatchCycles | None:
        """Return the cycles of an iteration; None where there are none."""
        if self._loops and iteration not in self._cycles:
            num_cycles = {rank: self._loops[stage].num_cycles for rank, stage in self._stages.items()}
            self._cycles[iteration] = MicroBatchCycles(self._env, num_cycles, self._link_bytes, self.skipped)
            self._cycles.pop(iteration - 2, None)
        return self._cycles.get(iteration)

    def num_skipped_micro_batches(self, iteration: int) -> int:
        """Return the number of micro-batches of an iteration that have been skipped so far."""
        return self._cycles[iteration].num_skipped * self.step if iteration in self._cycles else 0

    def whole(self, stage: int) -> Iterable[Op | ComputeSequence]:
        """Return all operations of a stage."""
        return self._ops((stage, "whole"), self._programs[stage].ops)

    def before(self, stage: int) -> Iterable[Op | ComputeSequence]:
        """Return the operations before the cycles of a stage."""
        return self._parts(stage, range(self._loops[stage].first))

    def each_cycle(self, stage: int, rank_cycles: RankCycles) -> Iterator[Iterable[Op | ComputeSequence]]:
        """Yield the operations of each cycle of a rank, as long as it has cycles left."""
        number = 0
        while rank_cycles.num_left:
            rank_cycles.num_left -= 1
            yield self._parts(stage, self._loops[stage].cycle(number))
            number += 1

    def after(self, stage: int, num_skipped: int) -> Iterable[Op | ComputeSequence]:
        """Return the operations after the cycles of a stage, `num_skipped` of which were skipped."""
        program, loop = self._programs[stage], self._loops[stage]
        return self._ops((stage, "after", num_skipped), lambda: after_cycles(program, loop, num_skipped))

    def _parts(self, stage: int, parts: range) -> Iterable[Op | ComputeSequence]:
        return self._ops((stage, parts.start, parts.stop), lambda: _ops_of(self._programs[stage].parts, parts))

    def _ops(self, key: Hashable, make: Callable[[], Iterator[Op]]) -> Iterable[Op | ComputeSequence]:
        """Return operations with adjacent computes as sequences; they are the same for all ranks of a stage."""
        if not self._keeps_ops:
            return merged_computes(make())
        if key not in self._kept:
            self._kept[key] = tuple(merged_computes(make()))
        return self._kept[key]


def _ops_of(parts: Sequence[Op | Pass], numbers: range) -> Iterator[Op]:
    for number in numbers:
        part = parts[number]
        if isinstance(part, Pass):
            yield from part.ops()
        else:
            yield part
