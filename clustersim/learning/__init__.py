"""Really trains a small model in the order in which a cluster was simulated: loss against simulated time.

A scenario says what is trained (`LearningSpec`, the key `learning`). The simulation says in which order workers read
and write weights (`TrainingOrder`). Training gives a `Curve` for each seed (`train`), and `learning_run` the figures
over all seeds. Only `training` imports torch, when something is trained.
"""

from clustersim.learning.checks import learning_mistakes
from clustersim.learning.order import ReplicaEvents, ReplicaOrder, SharedModelOrder, StageOrder, TrainingOrder
from clustersim.learning.scale import noise_scale_of
from clustersim.learning.spec import LearningSpec, Target
from clustersim.learning.summary import learning_run
from clustersim.learning.tasks import TASKS, LearningTask, TaskData, TorchTask, Trainee
from clustersim.learning.train import check_installed, package_versions, train, training_s

__all__ = [
    "TASKS",
    "LearningSpec",
    "LearningTask",
    "ReplicaEvents",
    "ReplicaOrder",
    "SharedModelOrder",
    "StageOrder",
    "Target",
    "TaskData",
    "TorchTask",
    "Trainee",
    "TrainingOrder",
    "check_installed",
    "learning_mistakes",
    "learning_run",
    "noise_scale_of",
    "package_versions",
    "train",
    "training_s",
]
