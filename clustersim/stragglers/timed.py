"""Stragglers that follow the clock and not the work: slow periods and pauses of GPUs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from clustersim.errors import InputError
from clustersim.seeding import stream
from clustersim.spec import Spec
from clustersim.stragglers.factors import Name, named
from clustersim.stragglers.intervals import GivenIntervals, PeriodicIntervals, RandomIntervals, SlowIntervals
from clustersim.stragglers.pace import Pace
from clustersim.stragglers.straggler import ComputeStraggler, Straggler, job_hosts
from clustersim.units import Duration

_SHORTEST_S = 1e-6


class TimedSlowdown(Spec):
    """A slowdown in intervals of time, which come at random or at given times.

    Random intervals are a two-state Markov process with exponential lengths: slow for `lasts` and not slow for
    `every - lasts` on average, so slow for lasts / every of the time.
    """

    every: Duration | None = Field(
        default=None, ge=_SHORTEST_S, description="mean time from the start of one interval to the start of the next"
    )
    lasts: Duration = Field(
        ge=_SHORTEST_S, description="length of an interval, on average if they are random; at least 1 us"
    )
    at: list[Duration] | None = Field(
        default=None,
        min_length=1,
        description="start times of the intervals, instead of `every`; each lasts `lasts` exactly. The measured "
        "iterations start at 0 s",
    )

    @model_validator(mode="after")
    def _ends_before_the_next(self) -> Self:
        if (self.every is None) == (self.at is None):
            got = "neither" if self.every is None else "both"
            raise InputError(
                f"give one of 'every' and 'at', the times of the intervals (got {got})",
                got=got,
                allowed="one of every and at",
            )
        if self.every is not None and self.every <= self.lasts:
            raise InputError(
                f"an interval must end before the next starts: 'every' must be longer than 'lasts' "
                f"(got every {self.every:g} s, lasts {self.lasts:g} s)",
                got=f"{self.every:g} s",
                allowed=f"more than {self.lasts:g} s",
            )
        return self

    def intervals(self, rng: np.random.Generator) -> SlowIntervals:
        """Return the intervals, drawn from a random stream."""
        if self.at is not None:
            return GivenIntervals(self.at, self.lasts)
        return RandomIntervals(rng, (self.every or 0.0) - self.lasts, self.lasts)


class TimedStraggler(TimedSlowdown, ComputeStraggler):
    """A straggler of GPUs in intervals of simulated time; faster compute does not end an interval earlier.

    Two strategies with one seed get the same intervals at the same times.
    """

    per: Literal["gpu", "host", "job"] = Field(
        default="gpu",
        description="whether each GPU has its own intervals, or all GPUs of a host or of the job have the same",
    )

    @property
    @abstractmethod
    def speed(self) -> float:
        """Share of a GPU's speed that is left during an interval."""

    def stream_name(self, rank: int, host: int) -> tuple[str | int, ...]:
        """Return the name of the random stream of a rank's intervals."""
        return {"gpu": (rank,), "host": ("host", host), "job": ("job",)}[self.per]


class SlowPeriods(TimedStraggler):
    """Intervals in which compute is slower by a factor: another job on the host, heat, a power cap."""

    kind: Literal["slow-periods"]
    factor: float = Field(gt=0, le=1e6, allow_inf_nan=False, description="factor on compute time in an interval")

    @property
    def speed(self) -> float:
        return 1 / self.factor


class Pauses(TimedStraggler):
    """Periodic pauses in which nothing computes: a daemon, a garbage collector.

    The first pause starts at a random time, for each GPU, or for a host or the job whose GPUs pause together.
    Common pauses cost a synchronous job much less (Petrini, Kerbyson and Pakin, The Case of the Missing
    Supercomputer Performance, 2003).
    """

    kind: Literal["pauses"]

    @property
    def speed(self) -> float:
        return 0.0

    def intervals(self, rng: np.random.Generator) -> SlowIntervals:
        if self.every is None:
            return super().intervals(rng)
        return PeriodicIntervals(self.every, self.lasts, float(rng.uniform(0.0, self.every)))


def has_given_times(specs: Sequence[Straggler]) -> bool:
    """Return whether a straggler has intervals at given times."""
    return any(isinstance(spec, TimedSlowdown) and spec.at is not None for spec in specs)


def delayed(specs: Sequence[Straggler], by_s: float) -> list[Straggler]:
    """Return stragglers whose intervals at given times start `by_s` later (infinity: never); others are unchanged.

    A scenario's times count from the start of the measured iterations, and intervals from the start of the run.
    """
    return [
        spec.model_copy(update={"at": [time_s + by_s for time_s in spec.at]})
        if isinstance(spec, TimedSlowdown) and isinstance(spec, Straggler) and spec.at is not None
        else spec
        for spec in specs
    ]


def paces(specs: Sequence[Straggler], seed: int, hosts: np.ndarray) -> list[Pace] | None:
    """Return the compute speed of each rank over time [num_ranks]; None if no straggler follows the clock.

    `hosts` [num_ranks] is the host of each rank. Each straggler has its own random stream for each rank, for each
    host or for the job, named like those of `factors`.
    """
    timed = [(name, spec, spec.affects(hosts)) for name, spec in named(specs) if isinstance(spec, TimedStraggler)]
    if not timed:
        return None
    shared: dict[tuple[Name, tuple[str | int, ...]], SlowIntervals] = {}
    intervals: list[list[tuple[SlowIntervals, float]]] = [[] for _ in hosts]
    for rank, host in enumerate(job_hosts(hosts).tolist()):
        for name, spec, affected in timed:
            if affected[rank]:
                key = name, spec.stream_name(rank, host)
                if key not in shared:
                    shared[key] = spec.intervals(stream(seed, "stragglers", *name, *key[1]))
                intervals[rank].append((shared[key], spec.speed))
    return [Pace(each) for each in intervals]
