"""Which samples a worker trains on depends on the seed and the worker alone."""

from __future__ import annotations

import numpy as np
import pytest

from clustersim.learning.training.samples import WorkerSamples, pools

POOL = np.arange(100)


def batches(worker: int, batch: int, count: int, seed: int = 1) -> list[list[int]]:
    samples = WorkerSamples(POOL, batch, seed, worker)
    return [samples.next().tolist() for _ in range(count)]


def test_a_worker_has_the_same_batches_whatever_the_others_do() -> None:
    first, second = (WorkerSamples(POOL, 8, 1, worker) for worker in range(2))
    in_turn = [(first.next().tolist(), second.next().tolist()) for _ in range(30)]
    assert [own for own, _ in in_turn] == batches(0, 8, 30)
    assert [own for _, own in in_turn] == batches(1, 8, 30)
    assert batches(0, 8, 30) != batches(1, 8, 30)
    assert batches(0, 8, 30) != batches(0, 8, 30, seed=2)


def test_batches_of_another_size_cut_the_same_order() -> None:
    assert np.ravel(batches(0, 8, 15)).tolist() == np.ravel(batches(0, 6, 20)).tolist()


@pytest.mark.parametrize("batch", [7, 100, 250])
def test_every_sample_comes_equally_often(batch: int) -> None:
    drawn = np.ravel(batches(3, batch, 100)).tolist()
    counts = np.bincount(drawn, minlength=100)
    assert counts.max() - counts.min() <= 1
    assert sorted(drawn[:100]) == list(range(100))
    assert drawn[:100] != drawn[100:200]


def test_pools_are_all_samples_or_equal_shares() -> None:
    labels = np.arange(100) % 10
    assert [len(each) for each in pools("shared", 100, labels, 4, 1)] == [100] * 4
    for data in ("split", "by-label"):
        shares = pools(data, 100, labels, 7, 1)
        assert {len(each) for each in shares} == {14, 15}
        assert sorted(np.concatenate(shares).tolist()) == list(range(100))
    by_label = pools("by-label", 100, labels, 10, 1)
    assert [set(labels[each].tolist()) for each in by_label] == [{label} for label in range(10)]
    assert len({tuple(sorted(each)) for each in (pools("split", 100, labels, 2, seed)[0] for seed in (1, 2))}) == 2
