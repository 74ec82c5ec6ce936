"""Trains in any order: chooses the training for the kind of order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from clustersim.kernels.compression import Compression, NoCompression
from clustersim.learning.order import ReplicaOrder, SharedModelOrder, TrainingOrder
from clustersim.learning.spec import LearningSpec
from clustersim.learning.tasks import Trainee
from clustersim.learning.training.compression import Compressor
from clustersim.learning.training.gradients import Gradients
from clustersim.learning.training.noise import NoiseMeter
from clustersim.learning.training.recorder import CurveRecorder
from clustersim.learning.training.replicas import ReplicaTraining
from clustersim.learning.training.shared_model import SharedModelTraining
from clustersim.learning.training.stages import StageTraining
from clustersim.results.learning import SeedRun


def replay(
    order: TrainingOrder,
    spec: LearningSpec,
    trainee: Trainee,
    seed: int,
    compression: Compression | None,
    on_progress: Callable[[float], None],
    measures_noise: bool,
) -> SeedRun:
    """Return what came of a training; parameters as of `train`."""
    with repeatable(seed):
        noise = NoiseMeter(trainee, order.num_updates, seed) if measures_noise else None
        recorder = CurveRecorder(trainee, spec, order.num_updates, on_progress, noise)
        run = training(order, spec, trainee, seed, compression).run(recorder)
        return run if noise is None else run._replace(noise=noise.rows)


def training(
    order: TrainingOrder, spec: LearningSpec, trainee: Trainee, seed: int, compression: Compression | None
) -> SharedModelTraining | ReplicaTraining | StageTraining:
    """Return the training for an order, which has not begun."""
    is_plain = compression is None or isinstance(compression, NoCompression)
    compressor = None if compression is None or is_plain else Compressor(compression, order.num_workers, seed)
    if isinstance(order, ReplicaOrder):
        gradients = Gradients(trainee, spec, order.num_workers, seed)
        return ReplicaTraining(order, spec.optimizer, trainee.initial, gradients, compressor)
    gradients = Gradients(trainee, spec, order.num_workers, seed, compressor)
    if isinstance(order, SharedModelOrder):
        return SharedModelTraining(order, spec.optimizer, trainee.initial, gradients)
    return StageTraining(order, spec.optimizer, trainee, gradients)


@contextmanager
def repeatable(seed: int) -> Iterator[None]:
    """Run torch on one thread, so that sums are the same in any process, with a random state of its own (dropout)."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(num_threads)
