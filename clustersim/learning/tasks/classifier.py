"""Keys of tasks that find the class of a sample, with a small network of one of two kinds."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from clustersim.errors import InputError
from clustersim.learning.tasks.task import LearningTask
from clustersim.spec import Count


class Classifier(LearningTask):
    """A perceptron or a convolutional network that finds the class of a sample."""

    model: Literal["mlp", "cnn"] = Field(
        default="mlp", description="a perceptron with one hidden layer (`mlp`), or a convolutional network (`cnn`)"
    )
    hidden: Count = Field(default=64, le=4096, description="units of the hidden layer, with `model: mlp`")

    @model_validator(mode="after")
    def _hidden_of_a_perceptron(self) -> Self:
        if self.model != "mlp" and "hidden" in self.model_fields_set:
            raise InputError(
                f"only a perceptron has hidden units to choose (got {self.hidden}, with model: {self.model})",
                got=str(self.hidden),
                allowed="model: mlp, or no `hidden`",
                key="hidden",
            )
        return self

    def network(self) -> str:
        """Return what the model is, in a few words."""
        return (
            f"a perceptron with {self.hidden} hidden units" if self.model == "mlp" else "a small convolutional network"
        )
