"""The way through the program of a stage: what comes before its cycles, cycle after cycle, and what follows them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

import numpy as np
import simpy

from clustersim.program.compute_sequence import ComputeSequence, merged_computes
from clustersim.program.loop import Loop, after_cycles
from clustersim.program.ops import Op, Pass, Program
from clustersim.shortcuts.micro_batch_cycle import MicroBatchCycles, RankCycles, SkippedCycles

FEWEST_CYCLES = 6
"""That are worth being looked at: of fewer none can be left out."""


class StagePrograms:
    """The programs of all stages, and what comes again in each of them: `loops`, or none where nobody is to look.

    `stages` are those of the ranks who play, by rank; operations are kept for the next who asks if `keeps`.
    `look` gives the bytes that links have carried [num_links].
    """

    def __init__(
        self,
        env: simpy.Environment,
        programs: Sequence[Program],
        loops: Sequence[Loop | None],
        stages: dict[int, int],
        look: Callable[[], np.ndarray],
        keeps: bool,
    ):
        self._env, self._look, self._programs, self._stages = env, look, programs, stages
        known = [loop for loop in loops if loop is not None and loop.num_cycles >= FEWEST_CYCLES]
        are_alike = len(known) == len(programs) and len({loop.step for loop in known}) == 1
        self._loops = known if are_alike else []
        self._keeps = keeps
        self._kept: dict[Hashable, tuple[Op | ComputeSequence, ...]] = {}
        self._cycles: dict[int, MicroBatchCycles] = {}
        self.left_out: list[SkippedCycles] = []

    @property
    def step(self) -> int:
        """How many micro-batches go through a cycle."""
        return self._loops[0].step if self._loops else 0

    def cycles(self, iteration: int) -> MicroBatchCycles | None:
        """Return the cycles of an iteration, where there are any."""
        if self._loops and iteration not in self._cycles:
            num_cycles = {rank: self._loops[stage].num_cycles for rank, stage in self._stages.items()}
            self._cycles[iteration] = MicroBatchCycles(self._env, num_cycles, self._look, self.left_out)
            self._cycles.pop(iteration - 2, None)
        return self._cycles.get(iteration)

    def num_fewer(self, iteration: int) -> int:
        """Return how many micro-batches of an iteration have been left out by now."""
        return self._cycles[iteration].num_left_out * self.step if iteration in self._cycles else 0

    def whole(self, stage: int) -> Iterable[Op | ComputeSequence]:
        """Go through the whole program of a stage."""
        return self._ops((stage, "whole"), self._programs[stage].ops)

    def before(self, stage: int) -> Iterable[Op | ComputeSequence]:
        """Go through what comes before the cycles of a stage."""
        return self._parts(stage, range(self._loops[stage].first))

    def each_cycle(self, stage: int, runner: RankCycles) -> Iterator[Iterable[Op | ComputeSequence]]:
        """Go through the cycles of a rank, as many as it has left."""
        number = 0
        while runner.num_left:
            runner.num_left -= 1
            yield self._parts(stage, self._loops[stage].cycle(number))
            number += 1

    def after(self, stage: int, num_left_out: int) -> Iterable[Op | ComputeSequence]:
        """Go through what follows the cycles of a stage, of which so many were left out."""
        program, loop = self._programs[stage], self._loops[stage]
        return self._ops((stage, "after", num_left_out), lambda: after_cycles(program, loop, num_left_out))

    def _parts(self, stage: int, parts: range) -> Iterable[Op | ComputeSequence]:
        return self._ops((stage, parts.start, parts.stop), lambda: _ops_of(self._programs[stage].parts, parts))

    def _ops(self, key: Hashable, make: Callable[[], Iterator[Op]]) -> Iterable[Op | ComputeSequence]:
        """Return operations, computes in stretches, the same for all ranks of a stage."""
        if not self._keeps:
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
