"""Request for a plan: a training, numbers of GPUs, batches, and fixed keys."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from clustersim.arguments import check_number
from clustersim.errors import InputError, Mistake, unknown_name
from clustersim.model import load_workload
from clustersim.parallelism import Parallelism
from clustersim.parallelism.offload import OPTIMIZER
from clustersim.planner.space import ALSO, EVERYTHING, GATHERED, SHARDINGS, Choice, Divisible, Space
from clustersim.scenario import Point, Scenario, build_topology, load_scenario
from clustersim.scenario.loader import gives
from clustersim.scenario.plan_checks import left_out_of_a_plan, plan_mistakes
from clustersim.scenario.software_keys import as_written
from clustersim.simulate import AnchorFit, fit_scenario
from clustersim.software import load_software

Source = Scenario | str | Path | Mapping[str, Any]

AXES = ("tensor", "pipeline", "context", "expert")
"""Ways to split a model over GPUs."""

_SOFTWARE = "megatron-core"
"""The software of a plan whose scenario names none: it has all layouts that a plan compares."""

_BATCH_OF_EACH = 720_720
"""Samples per GPU that are divisible by nearly all numbers of replicas and micro-batches."""


@dataclass(frozen=True)
class PlanRequest:
    """A training as a point, the numbers of GPUs to plan for, and the global batches of each.

    `scenario` is the source of the point, with a batch that suits all sizes. `fixed` are the given keys of
    `parallelism`, `most_tensor` is the maximum number of GPUs that split a layer, and `divisible` are the model's other
    divisible dimensions. `also` are keys that are compared on request. `left_out` are settings of the `software` that a
    plan does not support. `anchor` is what measured runs of the scenario say of its kernels. `given` are the keys of
    `parallelism`, and of `strategy` those that a plan tries, that the scenario itself gives. `source` and `overrides`
    make the scenario with all settings of the software.
    """

    scenario: Scenario
    point: Point
    batches: Mapping[int, Sequence[int]]
    fixed: Mapping[str, Any]
    most_tensor: int
    divisible: Divisible
    also: tuple[str, ...] = ()
    software: str = ""
    left_out: tuple[str, ...] = ()
    anchor: AnchorFit | None = None
    given: Mapping[str, Any] = field(default_factory=dict)
    source: Source = ""
    overrides: tuple[str, ...] = ()

    @property
    def num_gpus(self) -> tuple[int, ...]:
        """The numbers of GPUs in the given order."""
        return tuple(self.batches)

    def as_run(self, choice: Choice) -> Point:
        """Return the point of a choice as `clustersim run` makes it, with all settings of the software."""
        without = ("measured=[]",) if self.anchor else ()
        point = _only_point(load_scenario(self.source, [*self._overrides_of(choice), *without]))
        return self.anchor.applied(point) if self.anchor else point

    def scenario_of(self, choice: Choice) -> Scenario:
        """Return the scenario of a choice, with all settings of the software and the measured runs."""
        return load_scenario(self.source, self._overrides_of(choice))

    def _overrides_of(self, choice: Choice) -> list[str]:
        settings = {f"parallelism.{key}": value for key, value in (self._of_sheet(choice) | choice.settings()).items()}
        if choice.exchange:
            settings |= {"strategy.kind": self.point.strategy.kind}
            settings |= {f"strategy.{key}": value for key, value in choice.exchange}
        written = [f"{as_written(key)}={json.dumps(value)}" for key, value in settings.items()]
        sized = [f"num_gpus={choice.num_gpus}", f"batch={{global: {choice.batch}}}", "parallelism={}"]
        return [*self.overrides, *sized, *written]

    def _of_sheet(self, choice: Choice) -> dict[str, Any]:
        """Return the keys of a layout that the software sets too, so that the choice holds and not the software."""
        layout, values = choice.layout, load_software(self.software).values if self.software else {}
        applies = {
            "context_method": choice.grid.context > 1,
            "gather_overlap": layout.sharding in GATHERED and OPTIMIZER not in layout.offload,
            "tensor_overlap": layout.sequence_parallel and choice.grid.tensor > 1,
        }
        return {key: getattr(layout, key) for key, applied in applies.items() if applied and key in values}

    def space(self, batches: Mapping[int, Sequence[int]], fixed: Mapping[str, Any]) -> Space:
        """Return the search space for these batches by number of GPUs and these fixed keys."""
        strategy = self.point.strategy
        able = load_software(self.software).layouts if self.software else SHARDINGS
        shardings = [
            each for each in SHARDINGS if each is None or (each in able and not strategy.sharding_mistakes(each))
        ]
        return Space(batches, min(self.most_tensor, max(batches)), fixed, self.divisible, shardings, self.also)


def plan_request(
    scenario: Source,
    num_gpus: Sequence[int],
    batches: Sequence[int],
    overrides: Sequence[str],
    across_hosts: bool,
    also: Sequence[str] = (),
) -> PlanRequest:
    """Return the request for a scenario; raise InputError if it cannot be planned."""
    for name in also:
        if name not in (*ALSO, EVERYTHING):
            raise unknown_name("key that is compared on request", name, (*ALSO, EVERYTHING))
    also = ALSO if EVERYTHING in also else also
    if not num_gpus:
        raise InputError("a plan needs a number of GPUs (got none)", got="none", allowed="1 or more")
    for name, numbers in (("num_gpus", num_gpus), ("batch", batches)):
        for number in numbers:
            check_number(name, number, least=1, is_whole=True)
    most = max(num_gpus)
    anchor = _anchor(scenario, overrides)
    asked = overrides
    overrides = [*overrides, *(["measured=[]"] if anchor else [])]
    sized = _loaded(scenario, overrides, most)
    point = _only_point(sized)
    if point.is_software_chosen:
        overrides, asked = ([*given, f"software.name={_SOFTWARE}"] for given in (overrides, asked))
        point = _only_point(_loaded(scenario, overrides, most))
    left_out = left_out_of_a_plan(point)
    if left_out or point.software.name == _SOFTWARE:
        overrides = [*overrides, *(f"software.{name}={value}" for name, value in left_out.items())]
        sized = _loaded(scenario, overrides, most)
        point = _only_point(sized)
    mistakes = list(_mistakes(point))
    if mistakes:
        raise sized.located(InputError(mistakes))
    loaded = load_scenario(scenario, [*overrides, "memory_check=false", "num_gpus=1", "parallelism={}"])
    batch, layout = _only_point(loaded).batch, point.parallelism
    checked = point.model_copy(update={"memory_check": True})
    return PlanRequest(
        scenario=sized,
        point=anchor.applied(checked) if anchor else checked,
        batches={
            num: tuple(dict.fromkeys(batches)) or (batch.global_ or num * (batch.per_gpu or 1),) for num in num_gpus
        },
        fixed=_unable(point)
        | _overlaps(point)
        | {key: getattr(layout, key) for key in layout.model_fields_set if _is_fixed(layout, key)},
        most_tensor=most if across_hosts else _gpus_of_a_host(point),
        divisible=Divisible.of(load_workload(point.model)[0]),
        also=tuple(also),
        software=point.software.name,
        left_out=(*left_out, *_of_some_layouts(point)),
        anchor=anchor,
        given=_given(point, left_out),
        source=scenario,
        overrides=tuple(asked),
    )


def _given(point: Point, left_out: Collection[str]) -> dict[str, Any]:
    """Return the keys that the scenario itself gives and a plan would vary otherwise, with their values."""
    found = {}
    for of, keys in (("parallelism", None), ("strategy", ("algorithm", "buckets"))):
        part = getattr(point, of)
        for key in part.model_fields_set:
            is_written = f"{of}.{key}" not in point.supplied and key not in left_out
            is_varied = key in keys if keys else key != "kind" and _is_fixed(part, key)
            if is_written and is_varied:
                found[key] = getattr(part, key)
    order = [*Parallelism.model_fields, "algorithm", "buckets"]
    return {key: found[key] for key in order if key in found}


def _anchor(scenario: Source, overrides: Sequence[str]) -> AnchorFit | None:
    """Return what the measured runs of a scenario say; None if it has none."""
    if not gives("measured", scenario, overrides):
        return None
    return fit_scenario(load_scenario(scenario, [*overrides, "memory_check=false"]))


def _loaded(scenario: Source, overrides: Sequence[str], most: int) -> Scenario:
    try:
        return load_scenario(scenario, [*overrides, "memory_check=false", *_sized(most)])
    except InputError as error:
        raise InputError([_request_mistake(mistake) for mistake in error.mistakes]) from None


def _unable(point: Point) -> dict[str, int]:
    """Return a degree of 1 for each way to split a model that the software does not have."""
    ways = load_software(point.software.name).layouts if point.software.name else AXES
    return {axis: 1 for axis in AXES if axis not in ways}


_OF_SOME = ("sharding_by", "sharding_copies", "gathers", "joined_sums", "masks", "input_sums", "handed")
"""Settings of a software that only some layouts have, and that layouts of a plan are without."""


def _of_some_layouts(point: Point) -> tuple[str, ...]:
    """Return the settings of the software that a plan is without because they do not belong to all layouts."""
    values = load_software(point.software.name).values if point.software.name else {}
    return tuple(key for key in _OF_SOME if key in values and key not in point.parallelism.model_fields_set)


def _overlaps(point: Point) -> dict[str, bool]:
    """Return which communication the software overlaps with compute, in the layouts that have it."""
    values = load_software(point.software.name).values if point.software.name else {}
    return {key: True for key in ("gather_overlap", "tensor_overlap") if values.get(key) is True}


def _request_mistake(mistake: Mistake) -> Mistake:
    """Return an error in the number of GPUs as one of the request rather than of an override."""
    if mistake.key != "num_gpus":
        return mistake
    message = f"{mistake.message}; plan for fewer GPUs, or give topology more of them"
    return Mistake(message, "num_gpus", got=mistake.got, allowed=mistake.allowed)


def _sized(num_gpus: int) -> list[str]:
    """Return overrides for the number of GPUs, and a batch that is valid in any layout."""
    return [f"num_gpus={num_gpus}", f"batch={{global: {num_gpus * _BATCH_OF_EACH}}}"]


def _only_point(loaded: Scenario) -> Point:
    points = loaded.points()
    if len(points) > 1:
        axes = ", ".join(loaded.axes)
        error = InputError(
            f"a plan is for one training, but '{loaded.name}' is a sweep of {len(points)} (over {axes}); "
            "give each of these keys one value with --set",
            key=next(iter(loaded.axes)),
            got=f"{len(points)} points",
            allowed="one value",
        )
        raise loaded.located(error)
    return points[0].point


def _mistakes(point: Point) -> Iterator[Mistake]:
    """Yield errors for scenarios that a plan does not support, and for GPUs of several kinds."""
    yield from plan_mistakes(point)
    topology = build_topology(point.topology)
    kinds = list(dict.fromkeys(str(name) for name in topology.gpu_sheets[: point.num_gpus]))
    if len(kinds) > 1:
        message = f"a layout needs GPUs of one kind (got {', '.join(kinds)})"
        yield Mistake(message, key="topology", got=", ".join(kinds), allowed="one kind of GPU")


def _is_fixed(layout: Parallelism, key: str) -> bool:
    """Return whether a given key fixes a value: None fixes no degree, but it fixes `sharding`."""
    return key == "sharding" or getattr(layout, key) is not None


def _gpus_of_a_host(point: Point) -> int:
    return int(np.bincount(build_topology(point.topology).gpu_domains).max())
