"""The key `learning` of a scenario: what is really trained, and how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from clustersim.errors import InputError
from clustersim.learning.optimizer import AnyLearningOptimizer, LearningOptimizer
from clustersim.learning.scale import ScaleSpec
from clustersim.learning.tasks import BUILT_IN, TASKS, LearningTask
from clustersim.spec import Count, Spec, union_of

MOST_BATCH = 65_536
"""The largest batch of a gradient."""


def _known_task(value: Any) -> Any:
    """Return a task as a map with its `kind`."""
    if isinstance(value, str):
        TASKS[value]
        return {"kind": value}
    if isinstance(value, Mapping) and "kind" not in value:
        named = [kind for kind, task in TASKS.items() if task.named_by in value]
        return {"kind": named[0], **value} if len(named) == 1 else value
    return value


def _task_of(tasks: Mapping[str, type[LearningTask]]) -> Any:
    """Return the type of any task of a table, by name or as a map."""
    any_task = union_of(tasks)
    return Annotated[any_task, BeforeValidator(_known_task, json_schema_input_type=any_task | str)]


if TYPE_CHECKING:
    AnyTask = LearningTask
else:
    AnyTask = _task_of(BUILT_IN)


class Target(Spec):
    """When the model is good enough: at the first evaluation with at most this loss, or at least this accuracy."""

    loss: Annotated[float, Field(allow_inf_nan=False)] | None = Field(
        default=None, description="loss on samples that are not trained on"
    )
    accuracy: Annotated[float, Field(gt=0, le=1)] | None = Field(
        default=None, description="share of these samples whose class is found"
    )

    @model_validator(mode="after")
    def _one_metric(self) -> Self:
        given = [key for key in ("loss", "accuracy") if getattr(self, key) is not None]
        if len(given) != 1:
            got = " and ".join(given) or "neither"
            raise InputError(
                f"a target is a loss or an accuracy; give one (got {got})", got=got, allowed="loss or accuracy"
            )
        return self

    @property
    def metric(self) -> Literal["loss", "accuracy"]:
        """Which figure has to be reached."""
        return "loss" if self.loss is not None else "accuracy"

    @property
    def value(self) -> float:
        """The figure that has to be reached."""
        return float(self.loss if self.loss is not None else self.accuracy or 0.0)

    def is_reached(self, loss: float, accuracy: float | None) -> bool:
        """Return whether a model with these figures is good enough."""
        if self.metric == "loss":
            return loss <= self.value
        return accuracy is not None and accuracy >= self.value


class LearningSpec(Spec):
    """A small model that is really trained, in the order in which the scenario's workers read and write weights.

    With a `scale`, also the analytic forecast for the scenario's own model; without a `task`, only that.
    """

    task: AnyTask | None = Field(
        default=None,
        description="what is trained: a task by name, {kind: ..., and its keys}, or {module: my_task.py} for a model "
        "and data of your own, whose code is run; nothing if left out",
    )
    optimizer: AnyLearningOptimizer = Field(
        default=LearningOptimizer(), description="how it is updated: a kind, or {kind: ..., rate: ...}"
    )
    batch: Count = Field(default=16, le=MOST_BATCH, description="samples of the task in the gradient of one worker")
    data: Literal["shared", "split", "by-label"] = Field(
        default="shared",
        description="which samples a worker draws from: all (`shared`), an equal random share (`split`), or an equal "
        "share of the samples sorted by class (`by-label`)",
    )
    epochs: Annotated[float, Field(gt=0, le=1e6)] = Field(
        default=20.0, description="passes over the task's samples, counted in the gradients that are applied"
    )
    seeds: Count = Field(
        default=1,
        le=1000,
        description="trainings with different weights, samples and random draws of the simulation, for an interval",
    )
    target: Target | None = Field(default=None, description="when the model is good enough: {accuracy: 0.95}")
    evaluate_every: Count | None = Field(
        default=None, description="updates from one evaluation to the next; if left out, a hundredth of all updates"
    )

    scale: ScaleSpec | None = Field(
        default=None,
        description="a training of the scenario's own model, and its gradient noise scale, {noise_scale: ..., batch: "
        "..., steps: ...}: gives the updates, time and rate to the same loss with the batch of each run, by a formula",
    )

    @model_validator(mode="after")
    def _has_a_task_or_a_scale(self) -> Self:
        others = sorted(self.model_fields_set - {"task", "scale"})
        if self.task is None and (self.scale is None or others):
            got = ", ".join(others) or "neither"
            message = f"without a task nothing is trained (got {got}); give a task, or only a scale"
            raise InputError(message, got=got, allowed="task, or only scale")
        return self

    @property
    def trained(self) -> LearningTask:
        """The task, of a spec that has one."""
        assert self.task is not None
        return self.task

    def num_updates(self, num_samples: int, gradients_per_update: float) -> int:
        """Return the number of updates in all epochs.

        >>> LearningSpec(task="digits", batch=10, epochs=2).num_updates(1000, 4)
        50
        """
        return max(1, round(self.epochs * num_samples / (self.batch * gradients_per_update)))


def read_tasks() -> None:
    """Let `learning` have all tasks that the table has now, those of installed packages included.

    Until it is called it has those of this package, so that another package can import this one while it is read.
    """
    LearningSpec.model_fields["task"].annotation = _task_of(TASKS) | None
    LearningSpec.model_rebuild(force=True)


TASKS.on_register(read_tasks)
