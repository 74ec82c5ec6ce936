"""Trains in any order: chooses the training for the kind of order, and the samples of each worker."""

from __future__ import annotations

from collections.abc import Callable

import torch

from clustersim.kernels.compression import Compression
from clustersim.learning.order import SharedModelOrder, TrainingOrder
from clustersim.learning.spec import LearningSpec
from clustersim.learning.tasks import Trainee
from clustersim.learning.training.samples import WorkerSamples, pools
from clustersim.learning.training.shared_model import SharedModelTraining
from clustersim.results.learning import SeedRun


def replay(
    order: TrainingOrder,
    spec: LearningSpec,
    trainee: Trainee,
    seed: int,
    compression: Compression | None,
    on_progress: Callable[[float], None],
) -> SeedRun:
    """Return what came of a training; parameters as of `train`. It runs on one thread, so that sums are repeatable."""
    each = pools(spec.data, trainee.num_samples, trainee.labels, order.num_workers, seed)
    samples = [WorkerSamples(pool, spec.batch, seed, worker) for worker, pool in enumerate(each)]
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        if isinstance(order, SharedModelOrder):
            return SeedRun(SharedModelTraining(order, spec, trainee, samples).curve(on_progress))
        raise NotImplementedError(type(order).__name__)
    finally:
        torch.set_num_threads(before)
