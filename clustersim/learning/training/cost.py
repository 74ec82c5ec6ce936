"""How long a training takes, from a few gradients on this machine."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

import numpy as np
import torch

from clustersim.learning.spec import LearningSpec
from clustersim.learning.tasks import Trainee

_TRIED_S = 0.1
_EVALUATIONS = 100


def cpu_s_of(spec: LearningSpec, trainee: Trainee) -> float:
    """Return the CPU seconds that the trainings of all seeds take, without the simulation of their order."""
    gradients = spec.epochs * trainee.num_samples / spec.batch
    evaluations = min(_EVALUATIONS, gradients) if spec.evaluate_every is None else gradients / spec.evaluate_every
    samples = np.arange(spec.batch) % trainee.num_samples
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        gradient_s = _seconds(lambda: trainee.gradient(trainee.initial, samples))
        evaluation_s = _seconds(lambda: trainee.evaluate(trainee.initial))
    finally:
        torch.set_num_threads(before)
    return spec.seeds * (gradients * gradient_s + evaluations * evaluation_s)


def _seconds(work: Callable[[], object]) -> float:
    """Return the CPU time of a call: the mean over calls in a tenth of a second, after a first one."""
    work()
    begin_s, number = process_time(), 0
    while (passed_s := process_time() - begin_s) < _TRIED_S:
        work()
        number += 1
    return passed_s / number
