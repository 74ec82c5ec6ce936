"""Regression: a network learns what another, random one computes."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from clustersim.errors import InputError
from clustersim.learning.tasks.task import LearningTask, TaskData, Trainee
from clustersim.spec import Count

_MOST_NUMBERS = 1 << 28


class TeacherStudent(LearningTask):
    """A perceptron that learns the output of a random one, of any size; loss only.

    Inputs are normal numbers. Outputs are scaled to a variance of 1, so a loss of 1 is that of a constant.
    """

    kind: Literal["teacher-student"] = "teacher-student"
    inputs: Count = Field(default=20, le=65_536, description="numbers in a sample")
    hidden: Count = Field(default=64, le=65_536, description="hidden units of the student, which is trained")
    teacher_hidden: Count = Field(default=8, le=65_536, description="hidden units of the teacher")
    samples: Count = Field(default=4096, description="samples to train on")
    noise: Annotated[float, Field(ge=0, le=1e3)] = Field(
        default=0.1,
        description="standard deviation of the noise in the outputs to train on; the loss is evaluated without it",
    )
    teacher_seed: Annotated[int, Field(ge=0)] = Field(default=0, description="seed of the teacher and of the data")

    @model_validator(mode="after")
    def _fits_in_memory(self) -> Self:
        numbers = self.inputs * self.samples
        if numbers > _MOST_NUMBERS:
            allowed = f"at most {_MOST_NUMBERS // self.inputs:,} samples of {self.inputs:,} numbers"
            raise InputError(
                f"{self.samples:,} samples of {self.inputs:,} numbers take more than 1 GiB; {allowed}",
                got=f"{self.samples:,}",
                allowed=allowed,
                key="samples",
            )
        return self

    def title(self) -> str:
        return (
            f"a perceptron with {self.hidden:,} hidden units on {self.samples:,} outputs of one with "
            f"{self.teacher_hidden:,}"
        )

    def data(self) -> TaskData:
        return TaskData(self.samples, has_labels=False, has_accuracy=False)

    def trainee(self, seed: int) -> Trainee:
        from clustersim.learning.training.teacher_student import teacher_student_trainee

        return teacher_student_trainee(self, seed)
