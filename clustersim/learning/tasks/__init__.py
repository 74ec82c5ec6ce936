"""Tasks that a scenario may train: small models with their data."""

from collections.abc import Mapping

from clustersim.learning.tasks.characters import Characters
from clustersim.learning.tasks.digits import Digits
from clustersim.learning.tasks.image_folder import Cifar10, FashionMnist, Mnist
from clustersim.learning.tasks.mnist1d import Mnist1d
from clustersim.learning.tasks.own import Own, TorchTask
from clustersim.learning.tasks.quadratic import Quadratic
from clustersim.learning.tasks.task import LearningTask, TaskData, Trainee
from clustersim.learning.tasks.teacher_student import TeacherStudent
from clustersim.registry import Registry
from clustersim.spec import checked_spec

BUILT_IN: Mapping[str, type[LearningTask]] = {
    "digits": Digits,
    "mnist1d": Mnist1d,
    "teacher-student": TeacherStudent,
    "characters": Characters,
    "quadratic": Quadratic,
    "own": Own,
    "mnist": Mnist,
    "fashion-mnist": FashionMnist,
    "cifar-10": Cifar10,
}
TASKS: Registry[type[LearningTask]] = Registry("task", BUILT_IN, "clustersim.tasks", check=checked_spec(LearningTask))

__all__ = ["BUILT_IN", "TASKS", "LearningTask", "TaskData", "TorchTask", "Trainee"]
