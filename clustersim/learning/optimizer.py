"""The optimizer of `learning`: its rule, and its rate by time and by number of workers."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from clustersim.errors import InputError
from clustersim.spec import Spec

RateScaling = Literal["none", "linear", "sqrt"]


class LearningOptimizer(Spec):
    """How the small model is updated: SGD, SGD with momentum, or Adam, as `torch.optim` has them."""

    kind: Literal["sgd", "momentum", "adam"] = Field(default="sgd", description="the rule of the update")
    rate: Annotated[float, Field(gt=0, le=1e6)] = Field(
        default=0.1, description="learning rate of an update with the gradient of one worker"
    )
    momentum: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.9, description="share of the last step that is added to the next, with `kind: momentum`"
    )
    scaling: RateScaling = Field(
        default="none",
        description="factor of the rate where the gradients, or the weights, of n workers are averaged: n (`linear`), "
        "its square root (`sqrt`), or 1",
    )
    schedule: Literal["constant", "cosine", "linear"] = Field(
        default="constant", description="rate after the warm-up: `constant`, or falling to 0 at the end of the epochs"
    )
    warm_up: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.0, description="share of the epochs in which the rate rises linearly to its full value"
    )

    @model_validator(mode="after")
    def _momentum_has_an_effect(self) -> Self:
        if self.kind != "momentum" and "momentum" in self.model_fields_set:
            raise InputError(
                f"momentum changes nothing with {self.kind}; write `kind: momentum` for SGD with momentum",
                got=f"kind: {self.kind}",
                allowed="kind: momentum",
                key="momentum",
            )
        return self

    def factor(self, num_done: int, num_updates: int, gradients_per_update: float) -> float:
        """Return the factor of the rate of the update after `num_done` of all `num_updates` are done.

        In the warm-up it is in proportion to the number of the update, from 1 on: the first update has a rate above 0.

        >>> [LearningOptimizer(scaling="linear", warm_up=0.5).factor(number, 8, 8) for number in range(5)]
        [2.0, 4.0, 6.0, 8.0, 8.0]
        """
        share = num_done / num_updates
        scale = {"none": 1.0, "linear": gradients_per_update, "sqrt": math.sqrt(gradients_per_update)}[self.scaling]
        if num_done + 1 < self.warm_up * num_updates:
            return scale * (num_done + 1) / (self.warm_up * num_updates)
        decayed = max(0.0, (share - self.warm_up) / (1 - self.warm_up))
        if self.schedule == "cosine":
            return scale * 0.5 * (1 + math.cos(math.pi * decayed))
        return scale * (1 - decayed if self.schedule == "linear" else 1.0)


def _by_kind(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


AnyLearningOptimizer = Annotated[
    LearningOptimizer, BeforeValidator(_by_kind, json_schema_input_type=LearningOptimizer | str)
]
"""An optimizer as a scenario writes it: `adam` means `{kind: adam}`."""
