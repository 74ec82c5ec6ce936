"""Handwritten digits of 8 by 8 pixels: scikit-learn's copy of the UCI data set, which it has with it."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Literal

from clustersim.learning.tasks.classifier import Classifier
from clustersim.learning.tasks.task import TaskData, Trainee


class Digits(Classifier):
    """1,437 handwritten digits of 8 x 8 pixels to train on and 360 to evaluate, from scikit-learn (UCI)."""

    kind: Literal["digits"] = "digits"

    def missing(self) -> list[str]:
        return [] if find_spec("sklearn") else ["scikit-learn"]

    def title(self) -> str:
        return f"{self.network()} on 1,437 handwritten digits"

    def data(self) -> TaskData:
        return TaskData(1437, has_labels=True, has_accuracy=True)

    def trainee(self, seed: int) -> Trainee:
        from clustersim.learning.training.digits import digits_trainee

        return digits_trainee(self, seed)
