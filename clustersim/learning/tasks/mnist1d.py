"""MNIST-1D: ten shapes as rows of 40 numbers, which the package mnist1d makes from a seed (Greydanus, 2020)."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Literal

from pydantic import Field

from clustersim.learning.tasks.classifier import Classifier
from clustersim.learning.tasks.task import TaskData, Trainee
from clustersim.spec import Count


class Mnist1d(Classifier):
    """4,000 rows of 40 numbers in ten classes to train on and 1,000 to evaluate (MNIST-1D, made by its package)."""

    kind: Literal["mnist1d"] = "mnist1d"
    hidden: Count = Field(default=128, le=4096, description="units of the hidden layer, with `model: mlp`")

    def missing(self) -> list[str]:
        return [] if find_spec("mnist1d") else ["mnist1d"]

    def title(self) -> str:
        return f"{self.network()} on 4,000 signals of MNIST-1D"

    def data(self) -> TaskData:
        return TaskData(4000, has_labels=True, has_accuracy=True)

    def trainee(self, seed: int) -> Trainee:
        from clustersim.learning.training.mnist1d import mnist1d_trainee

        return mnist1d_trainee(self, seed)
