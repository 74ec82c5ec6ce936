"""Real trainings of a task, synchronous and not: how long a real cluster takes to reach a target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from clustersim.learning import LearningSpec
from clustersim.learning.summary import first_reached
from clustersim.learning.tasks import Trainee
from clustersim.results import Update, UpdateLog
from clustersim.results.learning import CurvePoint
from clustersim.seeding import stream
from validate.lab.case import Case, Measured, line_s
from validate.lab.cluster import Cluster
from validate.lab.experiments import Experiment, OnProgress, draw_keys, draw_times
from validate.lab.layout import Layout
from validate.lab.models import Trained, trainee_of
from validate.lab.ranks import run_ranks
from validate.lab.servers import Log, Mode, Served, message_bytes, serve_and_work
from validate.lab.texts import common_keys, layer_line, mode_text, place_text, table_text, workload_text

GROUP = "learning"
TIME_TO_TARGET = "learning.time_to_target_s"

_NUM_DRAWS = 250
"""Compute times of each worker; a training that needs more fails."""

_SKETCH = 8
"""Numbers that are stored of the last weights, instead of all of them."""


@dataclass(frozen=True)
class Learning(Experiment):
    """Workers that train a task at a server on its own host, once in each mode; the second worker may be slower.

    `modes` have the epochs that each is trained for, enough to reach the target. `learning` is the key of the same name
    in a scenario. Workers compute real gradients, and then sleep until their compute time is over, which is drawn
    beforehand. Weights and samples are those of the simulator for the same `seed`.
    """

    num_workers: int
    megabits_per_s: float
    modes: Sequence[tuple[Mode, float]]
    learning: Mapping[str, Any]
    mean_s: float = 0.1
    straggler: float = 1.0
    seed: int = 1

    def cases(self, folder: Path, on_progress: OnProgress) -> Iterator[Case]:
        draws = self._draws()
        for number, ((mode, _), case) in enumerate(zip(self.modes, self.planned(), strict=True)):
            spec = LearningSpec.model_validate(case.ask["learning"])
            num_updates = spec.num_updates(self.trainee.num_samples, mode.gradients_per_update(self.num_workers))
            on_progress(f"{num_updates} updates of a model that learns, {case.name}")
            make_model = partial(Trained, spec, self.learning_seed, self.num_workers, num_updates)
            given = (str(folder / f"store-{number}"), mode, make_model, draws.tolist(), num_updates)
            with Cluster(Layout.star(self.num_workers + 1), self.megabits_per_s) as cluster:
                served = run_ranks(cluster, serve_and_work, *given)[-1]
            yield self._measured(case, served)

    def planned(self) -> list[Case]:
        """Return the cases before they are run, without figures."""
        layout = Layout.star(self.num_workers + 1)
        where = place_text(layout, self.megabits_per_s)
        luck = f"one {self.straggler:g} times slower" if self.straggler != 1 else "equal workers"
        num_bytes = message_bytes(len(self.trainee.initial))
        names = [f"worker-{worker}" for worker in range(self.num_workers)]
        files = {
            "net.yaml": workload_text("lab-net", [layer_line(0, num_bytes, self.mean_s / 2, self.mean_s / 2)]),
            "draws.csv": table_text(names, self._draws().T.tolist()),
        }
        return [
            Case(
                GROUP,
                f"{mode_text(mode)}, {luck}, {where}",
                {
                    **common_keys(layout, self.megabits_per_s, self.num_workers, "learning"),
                    "seed": self.seed,
                    "strategy": mode.keys,
                    "stragglers": draw_keys(self.num_workers, self.mean_s),
                    "num_iterations": 20,
                    "learning": self._learning(mode, epochs),
                },
                {},
                line_s(num_bytes, self.megabits_per_s),
                files,
            )
            for mode, epochs in self.modes
        ]

    @property
    def spec(self) -> LearningSpec:
        """What is trained."""
        return LearningSpec.model_validate(self.learning)

    @property
    def learning_seed(self) -> int:
        """The seed of weights and samples in the first training of a scenario with this seed."""
        return int(stream(self.seed, "learning").integers(2**31))

    @property
    def trainee(self) -> Trainee:
        """The task's model and data."""
        return trainee_of(self.spec, self.learning_seed)

    def _learning(self, mode: Mode, epochs: float) -> dict[str, Any]:
        """Return the key `learning` of a mode: the model is evaluated about as often as every worker has a gradient."""
        every = max(1, self.num_workers // mode.gradients_per_update(self.num_workers))
        return {**self.learning, "epochs": epochs, "evaluate_every": every}

    def _draws(self) -> np.ndarray:
        return draw_times(self.seed, self.num_workers, _NUM_DRAWS, self.mean_s, self.straggler)

    def _measured(self, case: Case, served: Served) -> Case:
        """Evaluate the weights that were kept; return the case with its figures."""
        log = update_log(served.log, served.begin_s)
        made_s = dict(zip(log.version_written, log.time_s, strict=True))
        trainee = self.trainee
        curve = tuple(
            CurvePoint(round(made_s.get(updates, 0.0), 4), updates, *trainee.evaluate(_tensor(weights)))
            for updates, weights in served.kept.items()
        )
        assert self.spec.target is not None
        reached = first_reached(curve, self.spec.target)
        if reached is None:
            raise RuntimeError(f"{case.name}: the target is not reached in {curve[-1].updates} updates")
        last = served.kept[curve[-1].updates]
        learned = {
            "learning_seed": self.learning_seed,
            "log": log_columns(log),
            "curve": [
                [*point[:2], *(round(float(value), 6) for value in point[2:] if value is not None)] for point in curve
            ],
            "sketch": [round(value, 6) for value in sketch(last)],
        }
        figures = {TIME_TO_TARGET: Measured.of([reached.seconds])}
        return replace(case, figures=figures, learned=learned)


def sketch(weights: np.ndarray) -> list[float]:
    """Return a vector's products with a few fixed random vectors; they differ where two vectors differ anywhere.

    >>> sketch(np.zeros(3))[:2]
    [0.0, 0.0]
    """
    directions = np.random.default_rng(0).standard_normal((_SKETCH, len(weights)))
    return [float(value) for value in directions @ weights.astype(float)]


def difference(weights: Any, stored: Sequence[float]) -> float:
    """Return by how much a tensor of weights differs from those whose sketch is stored, as a share of these."""
    return float(np.linalg.norm(np.subtract(sketch(weights.numpy()), stored)) / np.linalg.norm(stored))


def _tensor(weights: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(weights)


def update_log(log: Log, begin_s: float) -> UpdateLog:
    """Return the log of a real server as clustersim's, with times from `begin_s` on, rounded to 0.1 ms."""
    found = UpdateLog()
    for at_s, worker, read, written, accepted in log:
        found.add(Update(round(at_s - begin_s, 4), worker, read, written, 1.0, accepted))
    return found


def log_columns(log: UpdateLog) -> dict[str, list[Any]]:
    """Return a log as columns, and the numbers of its rows that are dropped."""
    return {
        "time_s": log.time_s.tolist(),
        "worker": log.worker.tolist(),
        "read": log.version_read.tolist(),
        "written": log.version_written.tolist(),
        "dropped": [row for row, accepted in enumerate(log.accepted) if not accepted],
    }
