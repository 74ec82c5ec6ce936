"""A model of language that predicts the next character of a text that the package has with it.

The text is chapters 1 to 12 of Moby-Dick (Herman Melville, 1851), which is in the public domain. Where it comes from is
in `moby_dick.LICENSE.txt`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from clustersim.learning.tasks.task import LearningTask, TaskData, Trainee
from clustersim.spec import Count

TEXT = Path(__file__).parent / "moby_dick.txt"
NUM_TRAINED = 106_662
"""Characters at the beginning of the text that are trained on; the others are evaluated."""


class Characters(LearningTask):
    """The next character from those before it: 106,000 characters of Moby-Dick to train on, and 12,000 to evaluate."""

    kind: Literal["characters"] = "characters"
    context: Count = Field(default=8, le=256, description="characters that the model sees")
    embedding: Count = Field(default=16, le=1024, description="numbers that stand for a character")
    hidden: Count = Field(default=128, le=4096, description="units of the hidden layer")

    def title(self) -> str:
        return f"a perceptron that predicts characters of Moby-Dick from the {self.context} before"

    def data(self) -> TaskData:
        return TaskData(NUM_TRAINED - self.context, has_labels=True, has_accuracy=True)

    def trainee(self, seed: int) -> Trainee:
        from clustersim.learning.training.characters import characters_trainee

        return characters_trainee(self, seed)
