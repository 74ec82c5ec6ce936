"""Many equal steps of a ring at once: each rank sends one message and receives one, and all take equally long."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


class RingSteps:
    """A number of equal ring steps. `seconds` is the time of each message from its start to its end.

    A rank ends a step `seconds` after the latest start among itself, the rank it sends to and the one it receives
    from. So it ends k steps k times as long after the latest start among all ranks up to k away (a product in
    max-plus algebra; Baccelli et al., Synchronization and Linearity, 1992). The latest among twice as many ranks
    follows from two such values.
    """

    def __init__(self, src: np.ndarray, dst: np.ndarray, seconds: float):
        """Rank `src[i]` sends to `dst[i]`; both are permutations of all ranks."""
        self.seconds = seconds
        ahead, behind = np.empty_like(src), np.empty_like(src)
        ahead[src], behind[dst] = dst, src
        self._away = [(ahead, behind)]  # the ranks 1, 2, 4, ... ahead, and as many behind

    @classmethod
    def of(cls, num_ranks: int, src: np.ndarray, dst: np.ndarray, parts_s: Sequence[np.ndarray]) -> RingSteps | None:
        """Return the ring of messages [num_ranks] that each take the sum of some parts; None where it is no ring."""
        all_ranks = np.arange(num_ranks)
        if len(src) != num_ranks or not all((np.sort(ends) == all_ranks).all() for ends in (src, dst)):
            return None
        if (src == dst).any() or not all((part_s == part_s[0]).all() for part_s in parts_s):
            return None
        return cls(src, dst, float(sum(part_s[0] for part_s in parts_s)))

    def after(self, num_steps: int, admitted_s: np.ndarray) -> np.ndarray:
        """Return when each rank ends so many steps, if it may begin at its time [num_ranks]."""
        reach, known = min(num_steps, len(admitted_s)), min(num_steps, 1)
        latest_s = admitted_s
        if known:
            latest_s = np.maximum(admitted_s, np.maximum(*(admitted_s.take(ranks) for ranks in self._away[0])))
        while known < reach:
            further = min(known, reach - known)
            latest_s = np.maximum(*(latest_s.take(ranks) for ranks in self._ranks_away(further)))
            known += further
        return latest_s + num_steps * self.seconds

    def _ranks_away(self, distance: int) -> tuple[np.ndarray, np.ndarray]:
        """Return for each rank the one so far ahead, and the one so far behind [num_ranks]."""
        found: tuple[np.ndarray, np.ndarray] | None = None
        for power in range(distance.bit_length()):
            if power == len(self._away):
                ahead, behind = self._away[-1]
                self._away.append((ahead[ahead], behind[behind]))
            if distance >> power & 1:
                ahead, behind = self._away[power]
                found = (ahead, behind) if found is None else (ahead[found[0]], behind[found[1]])
        assert found is not None
        return found
