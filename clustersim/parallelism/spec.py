"""The keys of `parallelism` in a scenario."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import isqrt, prod
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from clustersim.errors import InputError, Mistake
from clustersim.parallelism.gradient_kernels import GradientKernels
from clustersim.parallelism.grid import Grid
from clustersim.parallelism.historical.halo import Tiles
from clustersim.parallelism.input_sums import InputSums
from clustersim.parallelism.nearest import product_mistake
from clustersim.parallelism.route import ROUTES
from clustersim.parallelism.sharding_copies import ShardingCopies
from clustersim.spec import Count, Spec, of_software
from clustersim.units import Size

Sharding = Literal["zero-1", "zero-2", "zero-3"]
Scheme = Literal["gathered", "one-by-one", "in-shares"]

MOST_MICRO_BATCHES = 16_384
"""Micro-batches of one update that are planned one by one: far more than any published training has."""

KEYS_OF_KIND = {"one-weird-trick": ("scheme", "update_every_pass"), "local-fields": ("tiles",)}
"""Keys that only one kind has."""


RecomputeKind = Literal["none", "attention", "selective", "full", "pointwise", "pointwise+attention"]


def _bool_as_kind(value: Any) -> Any:
    """Read `recompute: true` as `full`, and `false` as `none`."""
    return {True: "full", False: "none"}.get(value, value) if isinstance(value, bool) else value


Recompute = Annotated[
    RecomputeKind,
    BeforeValidator(_bool_as_kind, json_schema_input_type=RecomputeKind | bool),
]


def _none_is_null(value: str | None) -> str | None:
    """Read `sharding: none` as an absent key."""
    return None if value == "none" else value


def _check_pair(value: Any) -> Any:
    """Raise InputError for a list that is not [rows, columns]."""
    if isinstance(value, list) and len(value) != 2:
        allowed = "two numbers, as in tiles: [3, 4]"
        raise InputError(f"rows and columns are {allowed} (got {value})", got=str(value), allowed=allowed)
    return value


class Parallelism(Spec):
    """How the model is divided over the GPUs; the product of the degrees is num_gpus, and one may be left out."""

    kind: Literal["grid", "one-weird-trick", "local-fields", "paths"] = Field(
        default="grid",
        description=(
            "`grid`: the degrees below; `one-weird-trick`: data parallel up to the first fully connected "
            "layer, tensor parallel from there on, over the same GPUs; `local-fields`: every GPU has a tile "
            "of the image in every layer and exchanges halos with neighbouring tiles; `paths`: branches of "
            "the network on different GPUs of a replica, everything else on the first of them"
        ),
    )
    scheme: Scheme | None = Field(
        default=None,
        description=(
            "for `one-weird-trick`: the samples of all GPUs are `gathered` before one pass through the fully "
            "connected layers; or one pass for the samples of each GPU (`one-by-one`); or one pass for an "
            "equal share of every GPU's samples (`in-shares`, the default)"
        ),
    )
    update_every_pass: bool = Field(
        default=False,
        description=(
            "for `one-weird-trick`: the fully connected layers are updated after each of their passes, so "
            "their batch is smaller than that of the layers before"
        ),
    )
    tiles: Annotated[list[Count], Field(min_length=2, max_length=2), BeforeValidator(_check_pair)] | None = Field(
        default=None,
        description=(
            "for `local-fields`: rows and columns of tiles, one tile for each GPU of a replica; if not "
            "given, the grid that is nearest to a square"
        ),
    )
    data: Count | None = Field(
        default=None,
        description=(
            "replicas of the model, each with its own samples; if not given, num_gpus over the product of "
            "the other degrees"
        ),
    )
    tensor: Count | None = Field(default=None, description="tensor-parallel degree: GPUs that split each layer")
    pipeline: Count | None = Field(default=None, description="pipeline stages")
    expert: Count | None = Field(
        default=None,
        description="expert-parallel degree: GPUs that split the experts, each with its own samples; 1 if not given",
    )
    context: Count | None = Field(
        default=None, description="context-parallel degree: GPUs that split the tokens of each sequence; 1 if not given"
    )
    context_method: Literal["all-gather", "ring"] = Field(
        json_schema_extra=of_software("context_method"),
        default="all-gather",
        description=(
            "for `context`: the keys and values of all tokens are gathered before attention (`all-gather`), "
            "or blocks of them pass from GPU to GPU while each GPU computes with the block that it has "
            "(`ring`)"
        ),
    )
    expert_imbalance: float = Field(
        default=1.0,
        ge=1,
        allow_inf_nan=False,
        description="tokens of the GPU with the most tokens for its experts, over the mean",
    )
    expert_exchange: Literal["all-to-all", "two-hop", "low-latency"] = Field(
        default="all-to-all",
        description=(
            "for `expert`: how tokens travel to their experts: in an `all-to-all`, once for each expert; in `two-hop`, "
            "once for each host with experts for it, to the GPU of the same number, and from there to the GPUs with "
            "such experts; results are added in each host before they go back (DeepEP's normal kernels); or in "
            "`low-latency`, once for each expert, straight to its GPU, in one step"
        ),
    )
    expert_hosts: Count | None = Field(
        default=None,
        description=(
            "for `expert_exchange: two-hop`: most hosts with experts of a token (group-limited gating; 4 in "
            "DeepSeek-V3); any number if not given"
        ),
    )
    dispatched: Literal["activations", "fp8"] = Field(
        default="activations",
        description=(
            "for `expert`: number format in which tokens, and the gradients of results, travel to experts: that of "
            "`activations`, or `fp8` with a scale for 128 elements; results always travel as activations"
        ),
    )
    micro_batches: Count = Field(
        default=1, le=MOST_MICRO_BATCHES, description="micro-batches per replica and update, one after the other"
    )
    time_chunks: Count = Field(
        default=1,
        description="for recurrent layers in stages: chunks of each sequence that pass through one after the other",
    )
    schedule: Literal["gpipe", "1f1b", "interleaved", "zero-bubble", "pipedream", "dualpipe", "dualpipe-v"] = Field(
        default="1f1b",
        description=(
            "order of forward and backward passes of the micro-batches on a stage; with `pipedream` each "
            "micro-batch is an update, and iterations overlap; with `dualpipe` micro-batches enter at both ends, each "
            "stage has two parts of the model, and a forward pass computes while a backward pass waits for its "
            "all-to-alls, and the other way round (DeepSeek-V3); `dualpipe-v` does so with two `chunks` of one model "
            "on each stage"
        ),
    )
    chunks: Count = Field(
        default=1, description="for `interleaved`: model chunks on each stage; 2 if not given; `dualpipe-v` has 2"
    )
    balance: Literal["time", "memory", "blocks"] = Field(
        json_schema_extra=of_software("balance"),
        default="time",
        description=(
            "what is balanced over the stages: the `time` of a micro-batch, the `memory`, or the number of `blocks`"
        ),
    )
    stages: list[Count] | None = Field(default=None, description="layers of each stage, instead of balanced stages")
    sharding: Annotated[Literal["none", Sharding] | None, AfterValidator(_none_is_null)] = Field(
        default=None,
        description=(
            "what replicas shard: nothing (`none`), optimizer state (`zero-1`), also gradients (`zero-2`), "
            "also weights (`zero-3`, as in FSDP)"
        ),
    )
    sharding_over: Count | None = Field(
        default=None,
        description=(
            "for `sharding`: size of a shard group, that is of neighbouring replicas that shard among "
            "themselves; replicas with the same shard in different groups all-reduce it (HSDP: FSDP's "
            "`HYBRID_SHARD`; MiCS, InternLM's `zero1`); all replicas if not given"
        ),
    )
    joined_sums: Size | None = Field(
        json_schema_extra=of_software("joined_sums"),
        default=None,
        gt=0,
        description=(
            "for `sharding_over` with `zero-2` or `zero-3`: replicas that have the same shard all-reduce the "
            "shards of as many blocks together as fit into this size, in the order of the blocks' names as "
            "text (as XLA does for a JAX program whose layers are not scanned: "
            "`xla_gpu_all_reduce_combine_threshold_bytes`); if not given, block by block, as soon as the "
            "shard of a block is complete"
        ),
    )
    sharding_by: Literal["slices", "tensors"] = Field(
        json_schema_extra=of_software("sharding_by"),
        default="slices",
        description=(
            "for `sharding: zero-1`: each replica has the optimizer state of a slice of every bucket "
            "(`slices`), or of some whole `tensors`: then gradients are all-reduced, and each replica "
            "broadcasts the weights that it has updated, one replica after the other (PyTorch's "
            "ZeroRedundancyOptimizer, InternLM)"
        ),
    )
    sharding_copies: ShardingCopies = Field(
        json_schema_extra=of_software("sharding_copies"),
        default="none",
        description=(
            "for `sharding: zero-3`: copies within GPU memory around its collectives: none, `parameters` "
            "(gathered weights into separate tensors and gradients into one buffer: FSDP2), or, also with "
            "`zero-2`, gradients alone into a `flat` tensor, of which weights are views (FSDP1; "
            "`flat-padded` until PyTorch 2.0)"
        ),
    )
    gradient_kernels: GradientKernels = Field(
        json_schema_extra=of_software("gradient_kernels"),
        default="none",
        description=(
            "kernels that process gradients apart from those of layers, collectives and the update, where "
            "all GPUs have all gradients: `none`; PyTorch's accumulation over micro-batches (`autograd`); or "
            "the sums, casts, divisions and norms of `deepspeed-bf16` (its BF16_Optimizer, "
            "`deepspeed-bf16-0.12` from 2023 until release 0.14), `deepspeed-zero` (its stages 0 to 2 from "
            "July 2021 on; `zero-2`, with `overlap: false`, reduces each slice of a bucket to the GPU that "
            "updates it), `internlm`, `megatron` or `megatron-llama` (its OverlappedDistributedOptimizer, "
            "with `zero-2`)"
        ),
    )
    masks: Literal["none", "host"] = Field(
        json_schema_extra=of_software("masks"),
        default="none",
        description=(
            "for `software.launch: blocking`: before each forward pass of a micro-batch, the processes of the "
            "first and the last stage build an attention mask on the `host`, while the GPU waits "
            "(Megatron-DeepSpeed's stages from 2023 until July 2024); or `none`"
        ),
    )
    recompute: Recompute = Field(
        default="none",
        description=(
            "activations that are not stored but computed again in the backward pass: `attention` (its "
            "products and the layers between them, Megatron-LM's `--recompute-activations`); `selective` "
            "(the same; but in blocks with fused attention, which stores no scores, every second matrix "
            "product and all layers that are no matrix product); `full` (all but the input of each block); "
            "or, in a transformer, `pointwise` (all but matrix products and attention: MaxText's "
            "`minimal_flash`) or `pointwise+attention` (all but matrix products: JAX's `checkpoint_dots`)"
        ),
    )
    recompute_blocks: Count | None = Field(
        default=None,
        description=(
            "for `recompute`: number of blocks of every stage, the first ones of each of its `chunks`, that "
            "are recomputed; the other blocks store all activations (Megatron-LM's `--recompute-method block "
            "--recompute-num-layers`, NeMo's `activations_checkpoint_num_layers`); all blocks if not given"
        ),
    )
    offload: Literal["none", "optimizer", "activations", "optimizer+activations"] = Field(
        default="none",
        description=(
            "what is stored in host memory: the state of the `optimizer`, which the host updates with "
            "gradients that are copied there, before weights are copied back (ZeRO-Offload); or "
            "`activations`: those of each layer are copied out after its forward pass and prefetched one "
            "layer ahead of its backward pass; or both (`optimizer+activations`)"
        ),
    )
    messages: Literal["beside", "awaited", "paired"] = Field(
        json_schema_extra=of_software("messages"),
        default="beside",
        description=(
            "how stages exchange activations and gradients: `beside`: sends overlap with compute, and the "
            "receiver has a buffer; `awaited`: a transfer begins when both ranks are ready, and both wait "
            "for its end (DeepSpeed's pipeline); `paired`: the same, with the transfers of both directions "
            "between two stages at once (Megatron-LM's 1F1B)"
        ),
    )
    handed: Literal["in-shares", "whole"] = Field(
        json_schema_extra=of_software("handed"),
        default="in-shares",
        description=(
            "the GPUs of a tensor parallel group all have the whole of what a stage sends: each sends a "
            "share of it to its peer in the next stage, where the shares are gathered (`in-shares`; "
            "Megatron-LM until 2023), or all of it (`whole`; OneFlow)"
        ),
    )
    sequence_parallel: bool = Field(
        default=False,
        description="tensor parallel groups also split the layers between their matrix products, along the sequence",
    )
    input_sums: InputSums = Field(
        json_schema_extra=of_software("input_sums"),
        default="joined",
        description=(
            "tensor parallel groups all-reduce the gradient of an input that several matrices read once "
            "(`joined`), or once for `each` of queries, keys, values and the halves of a gated layer "
            "(ATorch); without `sequence_parallel`"
        ),
    )
    gather_overlap: bool = Field(
        json_schema_extra=of_software("gather_overlap"),
        default=False,
        description=(
            "for `sharding: zero-1` or `zero-2`: weights are gathered, bucket by bucket, during the first "
            "forward pass after their update, where each layer waits for its own bucket, instead of all at "
            "the end of an iteration (Megatron-LM's `--overlap-param-gather`)"
        ),
    )
    gathers: Literal["update", "micro-batch"] = Field(
        json_schema_extra=of_software("gathers"),
        default="update",
        description=(
            "for `sharding: zero-2`: weights are gathered after every `update`, or before the forward pass "
            "of every `micro-batch`, whose backward pass frees them (FSDP's `SHARD_GRAD_OP`, unless within "
            "`no_sync`): all at once, or with overlap those of the next block during each block"
        ),
    )
    tensor_overlap: bool = Field(
        json_schema_extra=of_software("tensor_overlap"),
        default=False,
        description=(
            "for `sequence_parallel`: matrix products overlap with their all-gather or reduce-scatter, which "
            "passes pieces of tokens from GPU to GPU while each GPU computes with the piece that it has "
            "(Megatron-LM's `--tp-comm-overlap`)"
        ),
    )

    @model_validator(mode="before")
    @classmethod
    def _interleaved_has_chunks(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("schedule") == "interleaved" and value.get("pipeline", 2) != 1:
            return {"chunks": 2, **value}
        if isinstance(value, dict) and value.get("schedule") == "dualpipe-v":
            return {"chunks": 2, **value}
        return value

    @model_validator(mode="after")
    def _keys_fit_the_kind(self) -> Self:
        others = self._ring_without_context() if self.kind == "grid" else self._keys_of_grid()
        mistakes = [*self._keys_of_other_kinds(), *self._blocks_without_recompute(), *others]
        if mistakes:
            raise InputError(mistakes)
        return self

    def _keys_of_other_kinds(self) -> list[Mistake]:
        return [
            Mistake(
                f"{key} is for kind: {kind}; give that as well, or leave {key} out",
                key=key,
                got=_as_yaml(getattr(self, key)),
                allowed=f"with kind: {kind}",
            )
            for kind, keys in KEYS_OF_KIND.items()
            for key in keys
            if kind != self.kind and getattr(self, key)
        ]

    def _ring_without_context(self) -> list[Mistake]:
        if self.context is not None or self.context_method == "all-gather":
            return []
        message = (
            "context_method: ring needs a degree of context parallelism; give context, or leave context_method out"
        )
        return [Mistake(message, key="context_method", got="ring", allowed="with context")]

    def _blocks_without_recompute(self) -> list[Mistake]:
        if self.recompute_blocks is None or self.recompute != "none":
            return []
        message = "recompute_blocks has no effect without recompute; give recompute, such as recompute: full"
        got = str(self.recompute_blocks)
        return [
            Mistake(
                f"{message}, or leave recompute_blocks out", key="recompute_blocks", got=got, allowed="with recompute"
            )
        ]

    def _keys_of_grid(self) -> list[Mistake]:
        of_kinds = [key for keys in KEYS_OF_KIND.values() for key in keys]
        others = (key for key in type(self).model_fields if key not in ("kind", "data", *of_kinds))
        mistakes = [
            Mistake(
                f"{self.kind} determines the layout over all GPUs; leave {key} out",
                key=key,
                got=_as_yaml(getattr(self, key)),
                allowed=f"kind: {self.kind} without it, or kind: grid",
            )
            for key in others
            if _is_set(getattr(self, key), type(self).model_fields[key].default)
        ]
        if self.scheme == "gathered" and self.update_every_pass:
            message = "with scheme: gathered there is one pass, after which all layers are updated"
            mistakes.append(
                Mistake(message, key="update_every_pass", got="true", allowed="false, or scheme: one-by-one, in-shares")
            )
        return mistakes

    @property
    def num_passes(self) -> int:
        """Forward passes of a stage in an iteration: micro-batches times time chunks."""
        return self.micro_batches * self.time_chunks

    @property
    def sliced(self) -> str | None:
        """What replicas shard in slices of every bucket; None if nothing, or if they shard whole tensors."""
        return self.sharding if self.sharding_by == "slices" else None

    def offloads(self, what: str) -> bool:
        """Return whether the `optimizer` state or the `activations` are in host memory."""
        return what in self.offload.split("+")

    def is_plain(self, num_gpus: int) -> bool:
        """Return whether every GPU trains a replica of the whole model on its whole batch at once."""
        if self.kind != "grid":
            return False
        one_pass = self.num_passes == 1 and self.chunks == 1 and self.stages is None and self.schedule not in ROUTES
        is_sharded = self.sharding is not None or self.sharding_over is not None or self.sharding_by != "slices"
        has_extra_work = self.sharding_copies != "none" or self.gradient_kernels != "none" or self.masks != "none"
        is_whole = one_pass and not is_sharded and self.recompute == "none" and not self.sequence_parallel
        has_extra_work = has_extra_work or self.offload != "none" or self.tensor_overlap or self.gather_overlap
        return is_whole and not has_extra_work and self.grid(num_gpus).data == num_gpus

    def grid(self, num_gpus: int) -> Grid:
        """Return the grid of ranks; raise InputError if the product of the degrees is not num_gpus."""
        if self.kind == "local-fields":
            num_tiles = self.tiles_on(num_gpus).num
            return Grid(data=num_gpus // num_tiles, pipeline=num_tiles, tiled=True)
        if self.kind == "paths":
            return Grid(data=self.data or 1, pipeline=self._gpus_per_replica(num_gpus), tiled=True)
        degrees = {axis: getattr(self, axis) for axis in ("tensor", "data", "pipeline")}
        others = {"context": self.context or 1, "expert": self.expert or 1}
        missing = [axis for axis, size in degrees.items() if size is None]
        product = prod(size or 1 for size in (*degrees.values(), *others.values()))
        free = "data" if "data" in missing else missing[0] if len(missing) == 1 else None
        if num_gpus % product or (product != num_gpus and free is None):
            raise InputError(self._product_mistake(num_gpus, exact=free is None))
        known: dict[str, Any] = {axis: size or 1 for axis, size in (degrees | others).items()}
        if free is not None:
            known[free] = num_gpus // product
        return self._with_shard_groups(Grid(**known, mirrored=ROUTES.get(self.schedule) == "both-ways"))

    def _with_shard_groups(self, grid: Grid) -> Grid:
        """Return the grid with shard groups; raise InputError if the replicas do not divide into them."""
        num, replicas = self.sharding_over, grid.num_replicas
        if num is None or num == replicas:
            return grid
        if replicas % num:
            sizes = [size for size in range(1, replicas + 1) if replicas % size == 0]
            near = min(sizes, key=lambda size: (abs(size - num), size))
            raise InputError(
                f"{_counted(replicas, 'replica does', 'replicas do')} not divide into shard groups of {num}; the "
                f"nearest size that works is {near}",
                key="sharding_over",
                got=str(num),
                allowed=str(near),
            )
        return replace(grid, shared_over=num)

    def tiles_on(self, num_gpus: int) -> Tiles:
        """Return the tiles of a replica; raise InputError if tiles times replicas is not num_gpus."""
        each = self._gpus_per_replica(num_gpus)
        if self.tiles is None:
            return _near_square(each)
        tiles = Tiles(*self.tiles)
        if tiles.num == each or (self.data is None and num_gpus % tiles.num == 0):
            return tiles
        near = min(
            (Tiles(rows, each // rows) for rows in range(1, each + 1) if each % rows == 0), key=_distance_from(tiles)
        )
        replicas = "" if self.data is None else f" of each of {self.data} replicas"
        raise InputError(
            f"{tiles.rows} x {tiles.columns} tiles are not the {each} GPUs{replicas}; the nearest grid that matches is "
            f"tiles: [{near.rows}, {near.columns}]",
            key="tiles",
            got=f"[{tiles.rows}, {tiles.columns}]",
            allowed=f"[{near.rows}, {near.columns}]",
        )

    def _gpus_per_replica(self, num_gpus: int) -> int:
        """Return the GPUs of each of `data` replicas; one replica if that is not given."""
        if num_gpus % (self.data or 1):
            raise InputError(self._product_mistake(num_gpus, exact=False))
        return num_gpus // (self.data or 1)

    def _product_mistake(self, num_gpus: int, exact: bool) -> Mistake:
        axes = ("data", "pipeline", "tensor", "expert", "context")
        given = {axis: size for axis in axes if (size := getattr(self, axis)) is not None}
        mistake = product_mistake(given, num_gpus, exact)
        left = num_gpus // (self.data or num_gpus)
        if exact and self.kind == "grid" and list(given) == ["data"] and self.data and self.data * left == num_gpus:
            message = f"{mistake.message}; or give each replica {left} GPUs, such as tensor: {left} or pipeline: {left}"
            return replace(mistake, message=message)
        return mistake


def _near_square(num: int) -> Tiles:
    """Return the grid of `num` tiles nearest to a square, with no more rows than columns.

    >>> _near_square(12)
    Tiles(rows=3, columns=4)
    """
    rows = max(rows for rows in range(1, isqrt(num) + 1) if num % rows == 0)
    return Tiles(rows, num // rows)


def _distance_from(tiles: Tiles) -> Callable[[Tiles], tuple[int, int]]:
    """Return a sort key: how far another grid is from `tiles`."""
    return lambda other: (abs(other.rows - tiles.rows) + abs(other.columns - tiles.columns), other.rows)


def _is_set(value: Any, default: Any) -> bool:
    """Return whether a value differs from the default; a degree of 1 counts as default."""
    is_one = value == 1 and not isinstance(value, bool)
    return bool(value != default and not is_one)


def _as_yaml(value: Any) -> str:
    """Return a value as text, as a scenario would have it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _counted(number: int, one: str, several: str) -> str:
    """Return a number with its noun, singular or plural."""
    return f"{number} {one if number == 1 else several}"


def micro_batch_of(parallelism: Parallelism, grid: Grid, global_batch: int) -> int:
    """Return the samples of one micro-batch: the global batch over replicas times micro-batches."""
    parts = grid.data * grid.expert * parallelism.micro_batches
    if global_batch % parts:
        below = global_batch // parts * parts
        near: Any = f"{below} or {below + parts}" if below else parts
        replicas = _counted(grid.data * grid.expert, "replica", "replicas")
        micro_batches = _counted(parallelism.micro_batches, "micro-batch", "micro-batches")
        raise InputError(
            f"a batch of {global_batch} does not divide over {replicas} of the model with {micro_batches} each; the "
            f"nearest batch that does is {near}",
            key="micro_batches",
            got=str(parallelism.micro_batches),
            allowed=f"a global batch that is a multiple of {parts}",
        )
    return global_batch // parts
