"""The optimizer of `learning`: its rule, and its rate by time and by number of workers."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

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
        default=0.0, description="share of the epochs in which the rate rises linearly from 0"
    )

    def factor(self, share: float, gradients_per_update: float) -> float:
        """Return the factor of the rate when a `share` of the epochs is trained, 0 to 1.

        >>> LearningOptimizer(scaling="linear", warm_up=0.1).factor(0.05, 8)
        4.0
        """
        scale = {"none": 1.0, "linear": gradients_per_update, "sqrt": math.sqrt(gradients_per_update)}[self.scaling]
        if share < self.warm_up:
            return scale * share / self.warm_up
        left = (share - self.warm_up) / (1 - self.warm_up)
        if self.schedule == "cosine":
            return scale * 0.5 * (1 + math.cos(math.pi * min(1.0, left)))
        return scale * (max(0.0, 1 - left) if self.schedule == "linear" else 1.0)


def _by_kind(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


AnyLearningOptimizer = Annotated[
    LearningOptimizer, BeforeValidator(_by_kind, json_schema_input_type=LearningOptimizer | str)
]
"""An optimizer as a scenario writes it: `adam` means `{kind: adam}`."""
