"""Which layouts there are: degrees, micro-batches, schedules, sharding and recomputation, in every combination."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_args

from clustersim.parallelism import Grid, Parallelism
from clustersim.parallelism.spec import Recompute, Sharding

SCHEDULES = (("1f1b", 1), ("zero-bubble", 1), ("interleaved", 2), ("interleaved", 4))
"""Schedules and their chunks that are tried; `gpipe` is not: it takes as long as 1f1b and holds more."""

SHARDINGS: tuple[Sharding | None, ...] = (None, *get_args(Sharding))
RECOMPUTES: tuple[Recompute, ...] = ("none", "selective", "full")
"""From the one that computes least to the one that holds least."""


@dataclass(frozen=True)
class Choice:
    """One layout of a model on so many GPUs with a batch over all of them, and how gradients meet if not as written."""

    num_gpus: int
    batch: int
    layout: Parallelism
    exchange: tuple[tuple[str, str], ...] = ()

    @cached_property
    def grid(self) -> Grid:
        """The ranks in their box."""
        return self.layout.grid(self.num_gpus)

    @property
    def micro_batch(self) -> int:
        """Samples of one micro-batch."""
        return self.batch // (self.grid.data * self.layout.micro_batches)

    def settings(self) -> dict[str, Any]:
        """Return what a scenario says under `parallelism`, without what is left at its default."""
        return self.layout.model_dump(exclude_defaults=True)

    def text(self) -> str:
        """Return the choice in a line, as a user would say it."""
        layout = self.layout
        degrees = [f"{axis} {size}" for axis in ("data", "tensor", "pipeline") if (size := getattr(layout, axis)) > 1]
        parts = [" x ".join(degrees) or "data 1"]
        if layout.pipeline and layout.pipeline > 1:
            chunks = f" {layout.chunks} chunks" if layout.chunks > 1 else ""
            parts.append(f"{layout.schedule}{chunks}")
        if layout.micro_batches > 1:
            parts.append(f"{layout.micro_batches} micro-batches")
        if layout.sharding:
            parts.append(layout.sharding)
        if layout.recompute != "none":
            parts.append(f"recompute {layout.recompute}")
        if layout.sequence_parallel:
            parts.append("sequence parallel")
        parts += [f"{key} {value}" for key, value in self.exchange]
        return ", ".join(parts)


@dataclass(frozen=True)
class Space:
    """What is to be gone through: for each number of GPUs the batches over all of them, and what is fixed.

    `most_tensor` is how many GPUs may split layers; `fixed` are the keys under `parallelism` that a scenario gives.
    """

    batches: Mapping[int, Sequence[int]]
    most_tensor: int
    fixed: Mapping[str, Any]

    def families(self, tally: dict[str, int]) -> Iterator[list[Choice]]:
        """Yield choices that differ in nothing but what they recompute, the least first.

        What cannot be is counted in `tally`, by the reason as it is told.
        """
        for num_gpus, batches in self.batches.items():
            for batch in batches:
                for tensor in self._given("tensor", divisors(num_gpus)):
                    if tensor > self.most_tensor and "tensor" not in self.fixed:
                        continue
                    for pipeline in self._given("pipeline", divisors(num_gpus // tensor)):
                        yield from self._of_degrees(num_gpus, batch, tensor, pipeline, tally)

    def _of_degrees(
        self, num_gpus: int, batch: int, tensor: int, pipeline: int, tally: dict[str, int]
    ) -> Iterator[list[Choice]]:
        data, rest = divmod(num_gpus, tensor * pipeline)
        if rest or self.fixed.get("data", data) != data:
            return
        if batch % data:
            _count(tally, DOES_NOT_DIVIDE)
            return
        schedules = [pair for pair in self._schedules() if pipeline > 1 or pair == ("1f1b", 1)] or [("1f1b", 1)]
        for micro_batches in self._given("micro_batches", divisors(batch // data)):
            if batch // data % micro_batches:
                _count(tally, DOES_NOT_DIVIDE)
                continue
            for schedule, chunks in schedules:
                if schedule == "interleaved" and chunks > 1 and micro_batches % pipeline:
                    _count(tally, NO_ROUNDS)
                    continue
                yield from self._families_of(
                    num_gpus,
                    batch,
                    {
                        "data": data,
                        "tensor": tensor,
                        "pipeline": pipeline,
                        "micro_batches": micro_batches,
                        "schedule": schedule,
                        "chunks": chunks,
                    },
                )

    def _families_of(self, num_gpus: int, batch: int, known: dict[str, Any]) -> Iterator[list[Choice]]:
        shardings = self._given("sharding", SHARDINGS if known["data"] > 1 else (None,))
        sequences = self._given("sequence_parallel", (False, True) if known["tensor"] > 1 else (False,))
        others = {key: value for key, value in self.fixed.items() if key in ("balance", "stages")}
        for sharding in shardings:
            for sequence in sequences:
                yield [
                    Choice(
                        num_gpus,
                        batch,
                        Parallelism(
                            **known, **others, sharding=sharding, sequence_parallel=sequence, recompute=recompute
                        ),
                    )
                    for recompute in self._given("recompute", RECOMPUTES)
                ]

    def _given(self, key: str, choices: Sequence[Any]) -> Sequence[Any]:
        return (self.fixed[key],) if key in self.fixed else choices

    def _schedules(self) -> list[tuple[str, int]]:
        fixed = self.fixed
        if "schedule" in fixed and "chunks" in fixed:
            return [(fixed["schedule"], fixed["chunks"])]
        pairs = [pair for pair in SCHEDULES if fixed.get("schedule", pair[0]) == pair[0]]
        pairs = pairs or [(fixed["schedule"], 1)]
        return [pair for pair in pairs if fixed.get("chunks", pair[1]) == pair[1]]


DOES_NOT_DIVIDE = "the batch does not divide over copies and micro-batches"
NO_ROUNDS = "interleaved stages need micro-batches in rounds of the stages"


def divisors(number: int) -> list[int]:
    """Return what divides a number, from 1 on.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    return [size for size in range(1, number + 1) if number % size == 0]


def _count(tally: dict[str, int], reason: str) -> None:
    tally[reason] = tally.get(reason, 0) + 1
