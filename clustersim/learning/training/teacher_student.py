"""The model and the data of the task `teacher-student`."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import nn

from clustersim.learning.tasks.teacher_student import TeacherStudent
from clustersim.learning.training.data import Data
from clustersim.learning.training.flat_model import FlatModel
from clustersim.learning.training.networks import drawn, perceptron
from clustersim.seeding import stream

_TEST_SAMPLES = 1000


def teacher_student_trainee(task: TeacherStudent, seed: int) -> FlatModel:
    """Return a student, drawn for a seed, with the data of its teacher."""
    data = taught(task.inputs, task.teacher_hidden, task.samples, task.noise, task.teacher_seed)
    with drawn(seed):
        return FlatModel(perceptron(task.inputs, task.hidden, 1), *data, loss=nn.functional.mse_loss)


@lru_cache(maxsize=2)
def taught(inputs: int, hidden: int, num_samples: int, noise: float, seed: int) -> Data:
    """Return normal inputs, and what a random perceptron makes of them, scaled to mean 0 and variance 1.

    The outputs to train on have noise with a standard deviation of `noise`.
    """
    rng = stream(seed, "learning", "teacher")
    first, biases = rng.standard_normal((inputs, hidden)) / np.sqrt(inputs), rng.standard_normal(hidden) / 2
    second = rng.standard_normal(hidden)
    samples = rng.standard_normal((num_samples + _TEST_SAMPLES, inputs), dtype=np.float32)
    outputs = np.maximum(samples @ first.astype(np.float32) + biases, 0) @ second
    mean, scale = outputs.mean(), outputs.std()
    outputs = (outputs - mean) / (scale if scale > 0 else 1.0)
    noisy = outputs[:num_samples] + noise * rng.standard_normal(num_samples)
    targets, test_targets = (
        torch.tensor(each, dtype=torch.float32).unsqueeze(1) for each in (noisy, outputs[num_samples:])
    )
    known = torch.from_numpy(samples)
    return Data(known[:num_samples], targets, known[num_samples:], test_targets)
