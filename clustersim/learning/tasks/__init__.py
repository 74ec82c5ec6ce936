"""Tasks that a scenario may train: small models with their data."""

from clustersim.learning.tasks.digits import Digits
from clustersim.learning.tasks.task import Task, TaskData, Trainee
from clustersim.registry import Registry
from clustersim.spec import checked_spec

TASKS: Registry[type[Task]] = Registry(
    "task",
    {
        "digits": Digits,
    },
    group="clustersim.tasks",
    check=checked_spec(Task),
)

__all__ = ["TASKS", "Task", "TaskData", "Trainee"]
