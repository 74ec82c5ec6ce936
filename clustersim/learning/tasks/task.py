"""What is trained: the base class of all tasks, and what a task hands to the training."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

import numpy as np

from clustersim.spec import Spec

if TYPE_CHECKING:
    from torch import Tensor


class TaskData(NamedTuple):
    """What is known of the data of a task; None is not known without reading them.

    `num_samples` are trained on. With `has_labels` each has a class, and with `has_accuracy` an evaluation counts how
    many are right.
    """

    num_samples: int | None = None
    has_labels: bool | None = None
    has_accuracy: bool | None = None


class Trainee(Protocol):
    """A model with its data. All its weights are one vector [num_weights], so that versions are cheap to keep.

    Samples are numbers from 0 to `num_samples` - 1. `labels` [num_samples] are their classes, None without classes.
    `mixes_samples` says whether the gradient of a batch is not the mean of those of its samples (batch normalization).
    `stage_starts(n)` says where n pipeline stages begin in the vector [n]; it raises InputError if the model has fewer
    layers.
    """

    num_samples: int
    mixes_samples: bool
    labels: np.ndarray | None
    initial: Tensor

    def gradient(self, weights: Tensor, samples: np.ndarray) -> Tensor:
        """Return the gradient [num_weights] of the mean loss of some samples at these weights; a new tensor."""

    def evaluate(self, weights: Tensor) -> tuple[float, float | None]:
        """Return loss and accuracy on data that is not trained on; the accuracy is None without classes."""

    def stage_starts(self, num_stages: int) -> list[int]:
        """Return where each stage begins in the vector of weights [num_stages]."""


class LearningTask(Spec):
    """What is trained; a pydantic model whose fields are the keys under `task` in a scenario.

    A task declares `kind: Literal["<name>"] = "<name>"`, the name under which it is registered. Only `trainee` may
    import torch.
    """

    named_by: ClassVar[str | None] = None
    """A key that no other task has: a map with this key needs no `kind`."""

    kind: str

    @abstractmethod
    def trainee(self, seed: int) -> Trainee:
        """Return the model with weights drawn for this seed, and its data, which are the same for all seeds."""

    @abstractmethod
    def title(self) -> str:
        """Return what is trained in a few words, such as `a perceptron on 1,437 digits`."""

    def missing(self) -> list[str]:
        """Return the packages that the task needs, besides torch, and that are not installed."""
        return []

    def check(self) -> None:
        """Raise InputError if a file that the task needs is missing or wrong. It takes no time, and imports no torch.

        What takes long to check is checked by `trainee`.
        """

    def data(self) -> TaskData:
        """Return what is known of the data without reading them, so that a scenario is checked without torch."""
        return TaskData()
