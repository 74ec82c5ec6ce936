"""Slowness that follows the clock and not the work: slow periods and pauses of GPUs."""

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
from clustersim.stragglers.pace import Pace
from clustersim.stragglers.straggler import ComputeStraggler, Straggler, job_hosts
from clustersim.stragglers.timeline import Alternating, Given, Regular, Timeline
from clustersim.units import Duration

_SHORTEST_S = 1e-6


class Spells(Spec):
    """When something is slow: spells of a length, again and again at random, or at given times.

    At random it is a Markov process of two states whose lengths are exponential: slow for `lasts` and not
    for `every - lasts` on average, so that it is slow for lasts / every of the time.
    """

    every: Duration | None = Field(
        default=None, ge=_SHORTEST_S, description="mean time from the beginning of one spell to that of the next"
    )
    lasts: Duration = Field(
        ge=_SHORTEST_S, description="how long a spell is, on average where they come at random; at least 1 us"
    )
    at: list[Duration] | None = Field(
        default=None,
        min_length=1,
        description="when the spells begin, instead of `every`; each lasts `lasts` exactly. What is measured begins at "
        "0 s",
    )

    @model_validator(mode="after")
    def _come_again_after_they_end(self) -> Self:
        if (self.every is None) == (self.at is None):
            got = "neither" if self.every is None else "both"
            raise InputError(
                f"how often? Give one of 'every' and 'at' (got {got})", got=got, allowed="one of every and at"
            )
        if self.every is not None and self.every <= self.lasts:
            raise InputError(
                f"a spell must end before the next begins: 'every' must be longer than 'lasts' "
                f"(got every {self.every:g} s, lasts {self.lasts:g} s)",
                got=f"{self.every:g} s",
                allowed=f"more than {self.lasts:g} s",
            )
        return self

    def timeline(self, rng: np.random.Generator) -> Timeline:
        """Return when the spells are, drawn from a random stream."""
        if self.at is not None:
            return Given(self.at, self.lasts)
        return Alternating(rng, (self.every or 0.0) - self.lasts, self.lasts)


class Timed(Spells, ComputeStraggler):
    """A source of spells in simulated time: who computes more quickly does not leave them earlier.

    So two strategies under one seed meet the same spells at the same times, however far each has come.
    """

    per: Literal["gpu", "host", "job"] = Field(
        default="gpu", description="whose spells they are: every GPU's own, the same on a host, or on all of them"
    )

    @property
    @abstractmethod
    def speed(self) -> float:
        """What is left of a GPU's speed during a spell."""

    def stream_name(self, rank: int, host: int) -> tuple[str | int, ...]:
        """Return the name of the random stream that a rank's spells are drawn from."""
        return {"gpu": (rank,), "host": ("host", host), "job": ("job",)}[self.per]


class SlowPeriods(Timed):
    """Periods in which compute is slower by a factor: a neighbour on the host, heat, a power cap."""

    kind: Literal["slow-periods"]
    factor: float = Field(gt=0, le=1e6, allow_inf_nan=False, description="compute takes this many times as long then")

    @property
    def speed(self) -> float:
        return 1 / self.factor


class Pauses(Timed):
    """Pauses at regular times in which nothing computes: a daemon, a garbage collector.

    When the first begins is random for each GPU, or for the host or the job where they pause together, which
    costs a synchronous job much less (Petrini, Kerbyson and Pakin, The Case of the Missing Supercomputer
    Performance, 2003).
    """

    kind: Literal["pauses"]

    @property
    def speed(self) -> float:
        return 0.0

    def timeline(self, rng: np.random.Generator) -> Timeline:
        if self.every is None:
            return super().timeline(rng)
        return Regular(self.every, self.lasts, float(rng.uniform(0.0, self.every)))


def has_given_times(specs: Sequence[Straggler]) -> bool:
    """Return whether a source has spells at given times."""
    return any(isinstance(spec, Spells) and spec.at is not None for spec in specs)


def delayed(specs: Sequence[Straggler], by_s: float) -> list[Straggler]:
    """Return sources whose spells at given times come so much later; by infinity: never. All others are what they are.

    A user's times count from when what is measured begins, timelines from when the run does.
    """
    return [
        spec.model_copy(update={"at": [time_s + by_s for time_s in spec.at]})
        if isinstance(spec, Spells) and isinstance(spec, Straggler) and spec.at is not None
        else spec
        for spec in specs
    ]


def paces(specs: Sequence[Straggler], seed: int, hosts: np.ndarray) -> list[Pace] | None:
    """Return how fast each rank computes as time passes [num_ranks]; None where no source follows the clock.

    `hosts` [num_ranks] is the host of each rank. Each source has a stream of its own for each rank, host or
    the job, named like those of `factors`.
    """
    timed = [(name, spec, spec.meets(hosts)) for name, spec in named(specs) if isinstance(spec, Timed)]
    if not timed:
        return None
    shared: dict[tuple[Name, tuple[str | int, ...]], Timeline] = {}
    timelines: list[list[tuple[Timeline, float]]] = [[] for _ in hosts]
    for rank, host in enumerate(job_hosts(hosts).tolist()):
        for name, spec, meets in timed:
            if meets[rank]:
                key = name, spec.stream_name(rank, host)
                if key not in shared:
                    shared[key] = spec.timeline(stream(seed, "stragglers", *name, *key[1]))
                timelines[rank].append((shared[key], spec.speed))
    return [Pace(each) for each in timelines]
