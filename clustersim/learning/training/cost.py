"""How long a training takes, from a few gradients on this machine."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import NamedTuple

import numpy as np
import torch

from clustersim.learning.spec import LearningSpec
from clustersim.learning.tasks import Trainee

_TRIED_S = 0.1
_EVALUATIONS = 100


class TrainingCost(NamedTuple):
    """CPU seconds of a gradient with one batch, and of an evaluation, of a task with so many samples."""

    num_samples: int
    gradient_s: float
    evaluation_s: float

    def cpu_s(self, spec: LearningSpec) -> float:
        """Return the CPU seconds that the trainings of all seeds take, without the simulation of their order."""
        gradients = spec.epochs * self.num_samples / spec.batch
        evaluations = min(_EVALUATIONS, gradients) if spec.evaluate_every is None else gradients / spec.evaluate_every
        return spec.seeds * (gradients * self.gradient_s + evaluations * self.evaluation_s)


def cost_of(trainee: Trainee, batch: int) -> TrainingCost:
    """Return what a task costs, from a few gradients on this machine."""
    samples = np.arange(batch) % trainee.num_samples
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        gradient_s = _seconds(lambda: trainee.gradient(trainee.initial, samples))
        evaluation_s = _seconds(lambda: trainee.evaluate(trainee.initial))
    finally:
        torch.set_num_threads(before)
    return TrainingCost(trainee.num_samples, gradient_s, evaluation_s)


def _seconds(work: Callable[[], object]) -> float:
    """Return the CPU time of a call: the mean over calls in a tenth of a second, after a first one."""
    work()
    begin_s, number = process_time(), 0
    while (passed_s := process_time() - begin_s) < _TRIED_S:
        work()
        number += 1
    return passed_s / number
