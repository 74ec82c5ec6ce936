"""Search space: all combinations of degrees, micro-batches, schedules, sharding and recomputation."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import gcd
from typing import Any, get_args

from clustersim.errors import InputError
from clustersim.kernels.fused_attention import is_fused
from clustersim.model import Model
from clustersim.parallelism import Grid, Parallelism
from clustersim.parallelism.nearest import divisors
from clustersim.parallelism.offload import ACTIVATIONS, OPTIMIZER
from clustersim.parallelism.route import ROUTES
from clustersim.parallelism.schedules import SCHEDULES as ORDERS
from clustersim.parallelism.spec import Recompute, Sharding

SCHEDULES = (("1f1b", 1), ("zero-bubble", 1), ("interleaved", 2), ("interleaved", 4))
"""Schedules and chunks that are tried; not `gpipe`, which takes as long as 1f1b and needs more memory."""

SHARDINGS: tuple[Sharding | None, ...] = (None, *get_args(Sharding))
BOTH_WAYS = (("dualpipe", 1), ("dualpipe-v", 2))
"""Schedules of DualPipe and chunks, which are tried on request."""

RECOMPUTES: tuple[Recompute, ...] = ("none", "selective", "full")
"""From the least compute to the least memory."""

ALL_RECOMPUTES: tuple[Recompute, ...] = ("none", "pointwise", "attention", "pointwise+attention", "selective", "full")
"""All kinds of recomputation."""

EXPERT_EXCHANGES = ("all-to-all", "two-hop", "low-latency")
"""Ways of tokens to their experts."""

GATHERED = ("zero-1", "zero-2")
"""Sharding levels that gather the weights once after the update."""

LONG_TOKENS = 4096
"""Minimum number of tokens of divided sequences: activations of shorter ones are small compared with weights."""

ALSO = ("sharding_over", "offload", "recompute", "dualpipe", "expert_exchange")
"""What is compared on request only: keys with all their values, and the schedules of DualPipe."""

EVERYTHING = "all"
"""Stands for all of `ALSO`."""

Cut = tuple[int, bool, bool, int, int, str]
"""Settings that determine a GPU's piece of each layer: tensor, sequence_parallel, tensor_overlap, expert, context,
context_method."""


@dataclass(frozen=True)
class Choice:
    """One layout of a model on `num_gpus` with a global batch; `exchange` overrides keys of the scenario's strategy."""

    num_gpus: int
    batch: int
    layout: Parallelism
    exchange: tuple[tuple[str, str], ...] = ()

    @cached_property
    def grid(self) -> Grid:
        """The grid of ranks."""
        return self.layout.grid(self.num_gpus)

    @property
    def micro_batch(self) -> int:
        """Samples of one micro-batch."""
        return self.batch // (self.grid.data * self.grid.expert * self.layout.micro_batches)

    @cached_property
    def cut(self) -> Cut:
        """Division of layers over the GPUs of a stage: choices with the same cut have the same pieces."""
        layout, grid = self.layout, self.grid
        return (
            grid.tensor,
            layout.sequence_parallel,
            layout.tensor_overlap,
            grid.expert,
            grid.context,
            layout.context_method,
        )

    @property
    def has_closed_form(self) -> bool:
        """Whether memory and times of passes have closed forms; those of other layouts come from their programs."""
        return self.layout.schedule not in ROUTES and self.layout.expert_exchange == "all-to-all"

    def settings(self) -> dict[str, Any]:
        """Return the keys for `parallelism` in a scenario, without defaults."""
        return self.layout.model_dump(exclude_defaults=True)

    def text(self) -> str:
        """Return the choice as one line of text."""
        layout = self.layout
        axes = ("data", "expert", "context", "tensor", "pipeline")
        degrees = [f"{axis} {size}" for axis in axes if (size := getattr(self.grid, axis)) > 1]
        parts = [" x ".join(degrees) or "data 1"]
        if layout.context_method == "ring":
            parts.append("ring attention")
        if layout.pipeline and layout.pipeline > 1:
            chunks = f" {layout.chunks} chunks" if layout.chunks > 1 and layout.schedule not in ROUTES else ""
            parts.append(f"{layout.schedule}{chunks}")
        if layout.micro_batches > 1:
            parts.append(f"{layout.micro_batches} micro-batches")
        if layout.sharding:
            over = self.grid.shard_group_size
            parts.append(layout.sharding + (f" over {over}" if over < self.grid.num_replicas else ""))
        if layout.offload != "none":
            parts.append(f"offload {layout.offload}")
        if layout.recompute != "none":
            parts.append(f"recompute {layout.recompute}")
        if layout.expert_exchange != "all-to-all":
            parts.append(f"{layout.expert_exchange} exchange")
        if layout.sequence_parallel:
            parts.append("sequence parallel")
        if layout.gather_overlap:
            parts.append("gather overlap")
        if layout.tensor_overlap:
            parts.append("tensor overlap")
        parts += [f"{key} {value}" for key, value in self.exchange]
        return ", ".join(parts)


@dataclass(frozen=True)
class Divisible:
    """Divisible dimensions of a model other than its layers: `experts`, and `tokens` of a sequence; 1 if not divisible.

    `in_rings`: attention may be computed in a ring, block by block.
    """

    experts: int = 1
    tokens: int = 1
    in_rings: bool = False

    @classmethod
    def of(cls, model: Model) -> Divisible:
        """Return the divisible dimensions of a model; sequences from `LONG_TOKENS` on.

        >>> from clustersim.model import load_model
        >>> Divisible.of(load_model("mixtral-8x7b"))
        Divisible(experts=8, tokens=4096, in_rings=True)
        """
        products = [layer for layer in model.layers if layer.op == "matmul"]
        tokens = gcd(*(layer.shape["rows"] for layer in products)) if products else 1
        return cls(
            experts=gcd(*(layer.shape["experts"] for layer in model.layers if layer.op == "experts")) or 1,
            tokens=tokens if tokens >= LONG_TOKENS else 1,
            in_rings=bool(products) and all(map(is_fused, products)),
        )


@dataclass(frozen=True)
class Space:
    """Search space: the global batches for each number of GPUs, and the fixed keys.

    `most_tensor` is the maximum number of GPUs that split layers and their tokens. `fixed` are the keys that the
    scenario gives under `parallelism`, and `divisible` are the model's other divisible dimensions. `shardings` are the
    levels that are tried, and `also` the keys of `ALSO` that are compared.
    """

    batches: Mapping[int, Sequence[int]]
    most_tensor: int
    fixed: Mapping[str, Any]
    divisible: Divisible = field(default_factory=Divisible)
    shardings: Sequence[Sharding | None] = SHARDINGS
    also: Collection[str] = ()

    def families(self, tally: dict[str, int]) -> Iterator[list[Choice]]:
        """Yield lists of choices that differ only in recomputation, the least first.

        Invalid layouts are counted in `tally` by reason.
        """
        for num_gpus, batches in self.batches.items():
            for batch in batches:
                for degrees in self._degrees(num_gpus):
                    yield from self._of_degrees(num_gpus, batch, degrees, tally)

    def _degrees(self, num_gpus: int) -> Iterator[dict[str, int]]:
        """Yield the degrees whose product is the number of GPUs."""
        for tensor in self._given("tensor", divisors(num_gpus)):
            if tensor > self.most_tensor and "tensor" not in self.fixed:
                continue
            for pipeline in self._given("pipeline", divisors(num_gpus // tensor)):
                left = num_gpus // (tensor * pipeline)
                for expert in self._given("expert", divisors(gcd(left, self.divisible.experts))):
                    for context in self._given("context", divisors(gcd(left // expert, self.divisible.tokens))):
                        if context > 1 and tensor * context > self.most_tensor and "context" not in self.fixed:
                            continue
                        data, rest = divmod(num_gpus, tensor * pipeline * expert * context)
                        if not rest and self.fixed.get("data", data) == data:
                            degrees = {"data": data, "tensor": tensor, "pipeline": pipeline}
                            beside = {"expert": expert, "context": context}
                            yield degrees | {axis: size for axis, size in beside.items() if size > 1}

    def _of_degrees(
        self, num_gpus: int, batch: int, degrees: Mapping[str, int], tally: dict[str, int]
    ) -> Iterator[list[Choice]]:
        copies, pipeline = degrees["data"] * degrees.get("expert", 1), degrees["pipeline"]
        if batch % copies:
            _count(tally, DOES_NOT_DIVIDE)
            return
        schedules = [pair for pair in self._schedules() if pipeline > 1 or pair == ("1f1b", 1)] or [("1f1b", 1)]
        for micro_batches in self._given("micro_batches", divisors(batch // copies)):
            if batch // copies % micro_batches:
                _count(tally, DOES_NOT_DIVIDE)
                continue
            for schedule, chunks in schedules:
                if schedule == "interleaved" and chunks > 1 and micro_batches % pipeline:
                    _count(tally, NO_ROUNDS)
                    continue
                if schedule in ROUTES and not _goes_both_ways(schedule, pipeline, micro_batches, chunks):
                    _count(tally, NOT_BOTH_WAYS)
                    continue
                order = {"micro_batches": micro_batches, "schedule": schedule, "chunks": chunks}
                yield from self._families_of(num_gpus, batch, {**degrees, **order})

    def _families_of(self, num_gpus: int, batch: int, known: Mapping[str, Any]) -> Iterator[list[Choice]]:
        others = {key: value for key, value in self.fixed.items() if key in ("balance", "stages", "expert_imbalance")}
        sequences = self._given("sequence_parallel", (False, True) if known["tensor"] > 1 else (False,))
        for sharding, over, offload in self._sharding_options(known):
            gathers = sharding in GATHERED and OPTIMIZER not in offload and self.fixed.get("gather_overlap", False)
            for sequence in sequences:
                for method in self._methods(known):
                    least, *more = self._given("recompute", self._recomputes)
                    layout = Parallelism(
                        **known,
                        **others,
                        **method,
                        sharding=sharding,
                        sharding_over=over,
                        offload=offload,
                        sequence_parallel=sequence,
                        gather_overlap=gathers,
                        tensor_overlap=sequence and known["tensor"] > 1 and self.fixed.get("tensor_overlap", False),
                        recompute=least,
                    )
                    layouts = [layout, *(layout.model_copy(update={"recompute": recompute}) for recompute in more)]
                    yield [Choice(num_gpus, batch, each) for each in layouts]

    def _shardings(self, known: Mapping[str, Any]) -> Sequence[Sharding | None]:
        """Return the sharding levels of the replicas; none for a single replica."""
        several = known["data"] * known.get("expert", 1) * known.get("context", 1) > 1
        return self._given("sharding", self.shardings if several else (None,))

    def _sharding_options(self, known: Mapping[str, Any]) -> Iterator[tuple[Sharding | None, int | None, str]]:
        """Yield sharding level, number of replicas that shard together, and offloading."""
        levels = get_args(Parallelism.model_fields["offload"].annotation) if "offload" in self.also else ("none",)
        for sharding, over in self._sharding_sizes(known):
            for offload in self._given("offload", levels):
                by_host = OPTIMIZER in offload.split("+") and (over or (sharding and known.get("expert", 1) > 1))
                if known["schedule"] in ROUTES and offload != "none":
                    continue
                if not by_host and not (ACTIVATIONS in offload and known["schedule"] == "zero-bubble"):
                    yield sharding, over, offload

    def _sharding_sizes(self, known: Mapping[str, Any]) -> Iterator[tuple[Sharding | None, int | None]]:
        """Yield sharding level and number of replicas that shard together; None is all of them, always with experts.

        If the scenario gives the number, only layouts with sharding are valid.
        """
        copies, key = known["data"] * known.get("context", 1), "sharding_over"
        for sharding in self._shardings(known):
            yield from self._over(sharding, known, copies, self.fixed.get(key))

    def _over(
        self, sharding: Sharding | None, known: Mapping[str, Any], copies: int, given: int | None
    ) -> Iterator[tuple[Sharding | None, int | None]]:
        if given is not None:
            if sharding is not None and copies % given == 0 and known.get("expert", 1) == 1:
                yield sharding, given if given < copies else None
            return
        yield sharding, None
        if "sharding_over" in self.also and sharding is not None and known.get("expert", 1) == 1:
            for over in divisors(copies)[1:-1]:
                yield sharding, over

    def _methods(self, known: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
        """Return the ways to compute divided attention, with the ways of tokens to experts."""
        methods: list[dict[str, Any]] = [{}]
        if "context" in known:
            ways = ("all-gather", "ring") if self.divisible.in_rings else ("all-gather",)
            methods = [{"context_method": way} for way in self._given("context_method", ways)]
        if "expert" not in known:
            return methods
        exchanges = EXPERT_EXCHANGES if "expert_exchange" in self.also else EXPERT_EXCHANGES[:1]
        found = self._given("expert_exchange", exchanges)
        return [{**method, "expert_exchange": exchange} for method in methods for exchange in found]

    @property
    def _recomputes(self) -> Sequence[Recompute]:
        return ALL_RECOMPUTES if "recompute" in self.also else RECOMPUTES

    def _given(self, key: str, choices: Sequence[Any]) -> Sequence[Any]:
        return (self.fixed[key],) if key in self.fixed else choices

    def _schedules(self) -> list[tuple[str, int]]:
        fixed = self.fixed
        if "schedule" in fixed and "chunks" in fixed:
            return [(fixed["schedule"], fixed["chunks"])]
        tried = (*SCHEDULES, *BOTH_WAYS) if "dualpipe" in self.also else SCHEDULES
        pairs = [pair for pair in tried if fixed.get("schedule", pair[0]) == pair[0]]
        pairs = pairs or [(fixed["schedule"], dict(BOTH_WAYS).get(fixed["schedule"], 1))]
        return [pair for pair in pairs if fixed.get("chunks", pair[1]) == pair[1]]


DOES_NOT_DIVIDE = "the batch does not divide over copies and micro-batches"
NO_ROUNDS = "interleaved stages need micro-batches in rounds of the stages"
NOT_BOTH_WAYS = "DualPipe needs at least twice as many micro-batches as stages, and an even number of each"


def _goes_both_ways(schedule: str, num_stages: int, num_micro: int, num_chunks: int) -> bool:
    """Return whether there is such a schedule for these numbers."""
    try:
        ORDERS[schedule](0, num_stages, num_micro, num_chunks)
    except InputError:
        return False
    return True


def _count(tally: dict[str, int], reason: str) -> None:
    tally[reason] = tally.get(reason, 0) + 1
