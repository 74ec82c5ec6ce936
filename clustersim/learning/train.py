"""Trains a task in a simulated order: the front door of the training, which imports torch only when it is called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING

from clustersim.errors import InputError, NotInstalledError
from clustersim.learning.order import TrainingOrder
from clustersim.learning.spec import LearningSpec
from clustersim.results.learning import SeedRun

if TYPE_CHECKING:
    from clustersim.kernels.compression import Compression
    from clustersim.learning.tasks import Trainee


PACKAGES = ("torch", "scikit-learn", "mnist1d")
"""What the extra `learning` installs, by the names of the packages."""

_MOST_MEASURED = 10
"""Tasks, each with a batch, whose gradients are timed: a fifth of a second each."""


def check_installed(spec: LearningSpec) -> None:
    """Raise NotInstalledError if the training needs packages that are not installed, and InputError for wrong files.

    It imports no package.
    """
    missing = [*([] if find_spec("torch") else ["torch"]), *spec.trained.missing()]
    if missing:
        raise NotInstalledError(
            f"training the task '{spec.trained.kind}' needs {' and '.join(missing)}: "
            "pip install 'clustersim[learning]'; --no-learn forecasts without training",
            got="not installed",
            allowed="clustersim[learning]",
            key="learning.task",
        )
    spec.trained.check()


def training_s(specs: Sequence[tuple[LearningSpec, int]]) -> float:
    """Return about how many seconds of one CPU core trainings take, each spec so many times, over all seeds.

    It computes a few gradients of the first tasks and batches; those after them are taken to cost as much on average.
    A task that cannot be made is left out.
    """
    from clustersim.learning.training.cost import TrainingCost, cost_of

    costs: dict[str, TrainingCost | None] = {}
    found_s, num_known = 0.0, 0
    for spec, number in specs:
        kind = f"{spec.trained!r} {spec.batch}"
        if kind not in costs:
            if len(costs) == _MOST_MEASURED:
                continue
            costs[kind] = None
            with suppress(InputError):
                costs[kind] = cost_of(spec.trained.trainee(0), spec.batch)
        cost = costs[kind]
        found_s += 0.0 if cost is None else cost.cpu_s(spec) * number
        num_known += number
    return found_s * sum(number for _, number in specs) / max(1, num_known)


@cache
def package_versions() -> dict[str, str]:
    """Return the versions of the installed packages that results of a training depend on. It imports none of them."""
    return {name: found for name in PACKAGES if (found := _version_of(name))}


def _version_of(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def train(
    order: TrainingOrder,
    spec: LearningSpec,
    trainee: Trainee,
    seed: int,
    compression: Compression | None = None,
    on_progress: Callable[[float], None] = lambda share: None,
    measures_noise: bool = False,
) -> SeedRun:
    """Return loss and accuracy of a model that is trained in a simulated order, from the weights `trainee.initial` on.

    Each gradient is that of the worker's next samples, which depend on `seed`, on the version that the order says. With
    a `compression`, workers compress gradients as it does, with error feedback. If it `measures_noise`, the gradient
    noise scale is measured now and then; the training stays the same.
    """
    from clustersim.learning.training.replay import replay

    return replay(order, spec, trainee, seed, compression, on_progress, measures_noise)
