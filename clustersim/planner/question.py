"""What a plan is asked: a training, numbers of GPUs, batches, and what is fixed already."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clustersim.arguments import check_number
from clustersim.errors import InputError, Mistake, unknown_name
from clustersim.model import load_workload
from clustersim.parallelism import Parallelism
from clustersim.planner.space import ALSO, SHARDINGS, Divisible, Space
from clustersim.scenario import Point, Scenario, build_topology, load_scenario
from clustersim.scenario.plan_checks import plan_mistakes

_BATCH_OF_EACH = 720_720
"""Samples for each GPU that nearly all numbers of copies and micro-batches divide."""


@dataclass(frozen=True)
class Question:
    """A training as a point, whose layout is asked for on each of `num_gpus`, with the batches over all of them.

    `scenario` is what the point was read from, with room for all sizes. `fixed` are the keys of `parallelism` that are
    given, `most_tensor` is how many GPUs may split layers, and `divisible` is what of the model there is to be divided
    beside them. `also` are keys that are compared on request.
    """

    scenario: Scenario
    point: Point
    batches: Mapping[int, Sequence[int]]
    fixed: Mapping[str, Any]
    most_tensor: int
    divisible: Divisible
    also: tuple[str, ...] = ()

    @property
    def num_gpus(self) -> tuple[int, ...]:
        """The numbers of GPUs in the order in which they were given."""
        return tuple(self.batches)

    def space(self, batches: Mapping[int, Sequence[int]], fixed: Mapping[str, Any]) -> Space:
        """Return the layouts that are asked about, of other numbers of GPUs or with more that is fixed if need be."""
        strategy = self.point.strategy
        shardings = [each for each in SHARDINGS if each is None or not strategy.sharding_mistakes(each)]
        return Space(batches, min(self.most_tensor, max(batches)), fixed, self.divisible, shardings, self.also)


def ask(
    scenario: Scenario | str | Path | Mapping[str, Any],
    num_gpus: Sequence[int],
    batches: Sequence[int],
    overrides: Sequence[str],
    across_hosts: bool,
    also: Sequence[str] = (),
) -> Question:
    """Return the question that a scenario asks, or raise an InputError with why it asks none."""
    for name in also:
        if name not in ALSO:
            raise unknown_name("key that is compared on request", name, ALSO)
    if not num_gpus:
        raise InputError("a plan is for some number of GPUs (got none)", got="none", allowed="1 or more")
    for name, numbers in (("num_gpus", num_gpus), ("batch", batches)):
        for number in numbers:
            check_number(name, number, least=1, is_whole=True)
    most = max(num_gpus)
    try:
        sized = load_scenario(scenario, [*overrides, "memory_check=false", *_sized(most)])
    except InputError as error:
        raise InputError([_of_the_question(mistake) for mistake in error.mistakes]) from None
    point = _only_point(sized)
    mistakes = list(_mistakes(point))
    if mistakes:
        raise sized.located(InputError(mistakes))
    loaded = load_scenario(scenario, [*overrides, "memory_check=false", "num_gpus=1", "parallelism={}"])
    batch, layout = _only_point(loaded).batch, point.parallelism
    return Question(
        scenario=sized,
        point=point.model_copy(update={"memory_check": True}),
        batches={
            num: tuple(dict.fromkeys(batches)) or (batch.global_ or num * (batch.per_gpu or 1),) for num in num_gpus
        },
        fixed={key: getattr(layout, key) for key in layout.model_fields_set if _says_something(layout, key)},
        most_tensor=most if across_hosts else _gpus_of_a_host(point),
        divisible=Divisible.of(load_workload(point.model)[0]),
        also=tuple(also),
    )


def _of_the_question(mistake: Mistake) -> Mistake:
    """Return a mistake in a number of GPUs as one of who asked for it, and not of an override."""
    if mistake.key != "num_gpus":
        return mistake
    message = f"{mistake.message}; ask for fewer GPUs, or give topology more of them"
    return Mistake(message, "num_gpus", got=mistake.got, allowed=mistake.allowed)


def _sized(num_gpus: int) -> list[str]:
    """Return overrides for so many GPUs and a batch that they can have in any layout."""
    return [f"num_gpus={num_gpus}", f"batch={{global: {num_gpus * _BATCH_OF_EACH}}}"]


def _only_point(loaded: Scenario) -> Point:
    points = loaded.points()
    if len(points) > 1:
        axes = ", ".join(loaded.axes)
        error = InputError(
            f"a plan is for one training, and '{loaded.name}' is a sweep of {len(points)} (over {axes}); "
            "give each of these one value with --set",
            key=next(iter(loaded.axes)),
            got=f"{len(points)} points",
            allowed="one value",
        )
        raise loaded.located(error)
    return points[0].point


def _mistakes(point: Point) -> Iterator[Mistake]:
    """Yield what a plan cannot compare layouts with, and that GPUs are not of one kind."""
    yield from plan_mistakes(point)
    topology = build_topology(point.topology)
    kinds = list(dict.fromkeys(str(name) for name in topology.gpu_sheets[: point.num_gpus]))
    if len(kinds) > 1:
        message = f"a model is laid over GPUs of one kind (got {', '.join(kinds)})"
        yield Mistake(message, key="topology", got=", ".join(kinds), allowed="one kind of GPU")


def _says_something(layout: Parallelism, key: str) -> bool:
    """Say whether a key that was given fixes something: no degree is none, no sharding is one."""
    return key == "sharding" or getattr(layout, key) is not None


def _gpus_of_a_host(point: Point) -> int:
    return int(np.bincount(build_topology(point.topology).gpu_hosts).max())
