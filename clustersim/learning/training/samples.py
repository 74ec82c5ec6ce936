"""Which samples each gradient is computed on."""

from __future__ import annotations

import numpy as np

from clustersim.seeding import stream


class WorkerSamples:
    """The samples of one worker: its `pool` in a random order, again and again, each time in another order.

    The order depends on the seed and the worker alone, so a worker computes its k-th gradient on the same samples in
    every strategy.
    """

    def __init__(self, pool: np.ndarray, batch: int, seed: int, worker: int):
        self._pool, self._batch = pool, batch
        self._rng = stream(seed, "learning", "samples", worker)
        self._order = np.zeros(0, dtype=np.int64)

    def next(self) -> np.ndarray:
        """Return the numbers of the samples of the next gradient [batch]."""
        while len(self._order) < self._batch:
            self._order = np.concatenate([self._order, self._rng.permutation(self._pool)])
        taken, self._order = self._order[: self._batch], self._order[self._batch :]
        return taken


def pools(data: str, num_samples: int, labels: np.ndarray | None, num_workers: int, seed: int) -> list[np.ndarray]:
    """Return the samples that each worker draws from [num_workers].

    All of them (`shared`), an equal random share (`split`), or an equal share of the samples sorted by class
    (`by-label`).
    """
    every = np.arange(num_samples)
    if data == "shared":
        return [every] * num_workers
    if data == "by-label":
        assert labels is not None
        return np.array_split(np.argsort(labels, kind="stable"), num_workers)
    return np.array_split(stream(seed, "learning", "split").permutation(every), num_workers)
