"""Handwritten digits of 8 by 8 pixels: scikit-learn's copy of the UCI data set, which it has with it."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Literal

from pydantic import Field

from clustersim.learning.tasks.task import Task, TaskData, Trainee
from clustersim.spec import Count


class Digits(Task):
    """1,437 digits to train on and 360 to evaluate (UCI's optical recognition of handwritten digits)."""

    kind: Literal["digits"] = "digits"
    model: Literal["mlp"] = Field(default="mlp", description="a perceptron with one hidden layer (`mlp`)")
    hidden: Count = Field(default=64, le=4096, description="units of the hidden layer")

    def missing(self) -> list[str]:
        return [] if find_spec("sklearn") else ["scikit-learn"]

    def title(self) -> str:
        return f"a perceptron with {self.hidden} hidden units on 1,437 handwritten digits"

    def data(self) -> TaskData:
        return TaskData(1437, has_labels=True, has_accuracy=True)

    def trainee(self, seed: int) -> Trainee:
        from clustersim.learning.training.digits import digits_trainee

        return digits_trainee(self.hidden, seed)
