"""What a run would gain, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import log
from typing import Any, Literal

from clustersim.results import Run

WHY_SCHEMA = "clustersim.why/1"


@dataclass(frozen=True)
class Gain:
    """What a run gains if a resource is faster: its rates times 1 + `by`, its delays divided by that.

    `gain` is the change of the samples per second, relative. `elasticity` is log(1 + gain) / log(1 + by): 1 where the
    run is as much faster as the resource, 0 where it is not faster. `saved_s` are the seconds less of each part of the
    breakdown, by part; they sum to those of an iteration. Where `idle` says why the resource cannot matter, nothing was
    simulated. `worth_dollars` is what the gain is worth for an hour of a GPU: its price times the gain; None without a
    price.
    """

    resource: str
    title: str
    by: float
    gain: float
    elasticity: float
    iteration_s: float
    samples_per_s: float
    saved_s: Mapping[str, float]
    idle: str = ""
    worth_dollars: float | None = None


@dataclass(frozen=True)
class Upgrade:
    """Hardware that a host, the network or the cluster could have instead, and what the run would be with it.

    `settings` are the keys to set. `dollars_per_hour` is the price of a GPU; `is_priced` says that it contains the
    upgrade, as the price of another GPU does: links and cards have none. `dollars_per_million` is then the cost of a
    million tokens, or samples, and `cost_change` how that differs from now, relative. `pays_up_to` is what an hour of a
    GPU with the upgrade may cost so that training costs as much as now. Figures are None where they are not known, and
    where the upgrade is `refused`, for the reason there.
    """

    key: str
    title: str
    now: str
    then: str
    settings: tuple[str, ...]
    gain: float | None = None
    samples_per_s: float | None = None
    iteration_s: float | None = None
    num_gpus: int | None = None
    is_priced: bool = False
    dollars_per_hour: float | None = None
    dollars_per_million: float | None = None
    cost_change: float | None = None
    pays_up_to: float | None = None
    refused: str = ""


@dataclass(frozen=True)
class Why:
    """The sensitivities of a run: what it would gain from each resource, the largest gain first, and from upgrades.

    `axes` are the values of the point that is explained where the scenario is a sweep of `num_points`, and `settings`
    the texts of `--set` that select it. `together` is the gain if all resources are faster by the same factor.
    `dollars_per_hour` is the price of one GPU (the mean of several kinds), None if one has no price. `unit` is what
    `dollars_per_million` counts. Texts are in `sentences`.
    """

    version: str
    name: str
    axes: Mapping[str, Any]
    num_points: int
    settings: tuple[str, ...]
    seed: int
    by: float
    num_gpus: int
    gpu: str
    iteration_s: float
    samples_per_s: float
    tokens_per_sample: float | None
    breakdown_s: Mapping[str, float]
    unit: Literal["tokens", "samples"]
    dollars_per_hour: float | None
    dollars_per_million: float | None
    gains: tuple[Gain, ...]
    together: Gain
    upgrades: tuple[Upgrade, ...] = ()
    notes: tuple[str, ...] = ()
    sentences: tuple[str, ...] = field(default=())

    def gain(self, resource: str) -> Gain:
        """Return the gain from a resource, by the name in `Gain.resource`; KeyError for one that the run has not."""
        return {each.resource: each for each in self.gains}[resource]

    def to_dict(self) -> dict[str, Any]:
        """Return the sensitivities as a `clustersim.why/1` document."""
        return {"schema": WHY_SCHEMA, **asdict(self)}

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row for each gain and each upgrade, with the unit in the name of a column, as the CSV has them."""
        rows = [_gain_row(each) for each in (*self.gains, self.together)]
        return rows + [_upgrade_row(each) for each in self.upgrades]


def _gain_row(each: Gain) -> dict[str, Any]:
    saved = {f"saved_{part}_s": seconds for part, seconds in each.saved_s.items()}
    return {
        "what": each.resource,
        "title": each.title,
        "change": f"+{each.by:.6g}",
        "gain": each.gain,
        "elasticity": each.elasticity,
        "iteration_s": each.iteration_s,
        "samples_per_s": each.samples_per_s,
        "worth_dollars_per_gpu_hour": each.worth_dollars,
        "remark": each.idle,
        **saved,
    }


def _upgrade_row(each: Upgrade) -> dict[str, Any]:
    return {
        "what": each.key,
        "title": each.title,
        "change": f"{each.now} -> {each.then}",
        "gain": each.gain,
        "iteration_s": each.iteration_s,
        "samples_per_s": each.samples_per_s,
        "pays_up_to_dollars_per_gpu_hour": each.pays_up_to,
        "dollars_per_gpu_hour": each.dollars_per_hour,
        "dollars_per_million": each.dollars_per_million,
        "remark": each.refused,
    }


def gain_of(before: Run, after: Run, resource: str, title: str, by: float, price: float | None) -> Gain:
    """Return what a run gains from a resource, given the run with it; `price` is of a GPU for an hour."""
    gain = after.samples_per_s / before.samples_per_s - 1
    parts = {part: before.breakdown_s[part] - after.breakdown_s.get(part, 0.0) for part in before.breakdown_s}
    return Gain(
        resource,
        title,
        by,
        gain,
        log(1 + gain) / log(1 + by),
        after.iteration_s,
        after.samples_per_s,
        {part: seconds for part, seconds in parts.items() if before.breakdown_s[part] or seconds},
        worth_dollars=None if price is None else price * gain,
    )
