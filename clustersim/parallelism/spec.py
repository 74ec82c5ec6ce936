"""What a user writes under `parallelism`."""

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
from clustersim.parallelism.sharding_copies import ShardingCopies
from clustersim.spec import Count, Spec
from clustersim.units import Size

Sharding = Literal["zero-1", "zero-2", "zero-3"]
Scheme = Literal["gathered", "one-by-one", "in-shares"]

KEYS_OF_KIND = {"one-weird-trick": ("scheme", "update_every_pass"), "local-fields": ("tiles",)}
"""Keys that mean something to one kind alone."""


RecomputeKind = Literal["none", "attention", "selective", "full", "pointwise", "pointwise+attention"]


def _bool_as_kind(value: Any) -> Any:
    """Read `recompute: true` as all of it."""
    return {True: "full", False: "none"}.get(value, value) if isinstance(value, bool) else value


Recompute = Annotated[
    RecomputeKind,
    BeforeValidator(_bool_as_kind, json_schema_input_type=RecomputeKind | bool),
]


def _none_is_null(value: str | None) -> str | None:
    """Read `sharding: none` as a key left out."""
    return None if value == "none" else value


def _check_pair(value: Any) -> Any:
    """Refuse a list that is not rows and columns, and say what it is to be."""
    if isinstance(value, list) and len(value) != 2:
        allowed = "two numbers, as in tiles: [3, 4]"
        raise InputError(f"rows and columns are {allowed} (got {value})", got=str(value), allowed=allowed)
    return value


class Parallelism(Spec):
    """How the model is laid over the GPUs; the product of the degrees is num_gpus, and one may be left out."""

    kind: Literal["grid", "one-weird-trick", "local-fields", "paths"] = Field(
        default="grid",
        description="`grid`: the degrees below; `one-weird-trick`: every GPU has all layers up to the first "
        "fully-connected one, for samples of its own, and a part of that and of those behind it, for all samples; "
        "`local-fields`: every GPU has a tile of the image in every layer and exchanges borders with those around it; "
        "`paths`: branches of the network on different GPUs of a copy, everything else on the first of them",
    )
    scheme: Scheme | None = Field(
        default=None,
        description="for `one-weird-trick`: all samples are `gathered` before one pass through the fully connected "
        "layers, or one GPU's go through at a time (`one-by-one`), or a share of every GPU's (`in-shares`, if not "
        "given)",
    )
    update_every_pass: bool = Field(
        default=False,
        description="for `one-weird-trick`: the fully connected layers are updated after each of their passes, which "
        "so have a smaller batch than those before them",
    )
    tiles: Annotated[list[Count], Field(min_length=2, max_length=2), BeforeValidator(_check_pair)] | None = Field(
        default=None,
        description="for `local-fields`: rows and columns of tiles, one for each GPU of a copy; as near to a square as "
        "their number allows if not given",
    )
    data: Count | None = Field(
        default=None,
        description="copies of the model, each with its own samples; what is left of num_gpus if not given",
    )
    tensor: Count | None = Field(default=None, description="GPUs over which each layer is split")
    pipeline: Count | None = Field(default=None, description="stages into which the layers are cut")
    expert: Count | None = Field(
        default=None, description="GPUs over which experts are shared out, each with its own samples; 1 if not given"
    )
    context: Count | None = Field(
        default=None, description="GPUs that have some tokens each of every sequence; 1 if not given"
    )
    context_method: Literal["all-gather", "ring"] = Field(
        default="all-gather",
        description="for `context`: keys and values of all tokens are gathered before attention (`all-gather`), or "
        "blocks of them go from GPU to GPU while each computes with the one it has (`ring`)",
    )
    expert_imbalance: float = Field(
        default=1.0, ge=1, allow_inf_nan=False, description="tokens of the fullest GPU of experts, over the mean"
    )
    micro_batches: Count = Field(default=1, description="parts of a copy's batch that go through one after the other")
    time_chunks: Count = Field(
        default=1,
        description="for recurrent layers in stages: parts of each sequence that go through one after the other",
    )
    schedule: Literal["gpipe", "1f1b", "interleaved", "zero-bubble", "pipedream"] = Field(
        default="1f1b",
        description="in which order a stage goes forward and backward with its micro-batches; with `pipedream` each of "
        "them is an update, and iterations flow into one another",
    )
    chunks: Count = Field(
        default=1, description="for `interleaved`: parts of the model that lie on each stage; 2 if not given"
    )
    balance: Literal["time", "memory", "blocks"] = Field(
        default="time",
        description="what stages have alike: the `time` of a micro-batch, the `memory`, or the number of `blocks`",
    )
    stages: list[Count] | None = Field(
        default=None, description="layers of each stage, where they are not to be balanced"
    )
    sharding: Annotated[Literal["none", Sharding] | None, AfterValidator(_none_is_null)] = Field(
        default=None,
        description="what copies share out among them: nothing (`none`), optimizer state (`zero-1`), gradients too "
        "(`zero-2`), weights too (`zero-3`, as in FSDP)",
    )
    sharding_over: Count | None = Field(
        default=None,
        description="for `sharding`: how many copies share out what they have, those nearest to each other; so does "
        "every other group of as many, and those who have the same share add up theirs (FSDP's `HYBRID_SHARD`, MiCS, "
        "InternLM's `zero1`); all copies, if not given",
    )
    joined_sums: Size | None = Field(
        default=None,
        gt=0,
        description="for `sharding_over` with `zero-2` or `zero-3`: those who have the same share add theirs up as "
        "soon as a block's is there, if not given; or in all-reduces of as many blocks as fit into a size, by their "
        "names in the order of a text (what XLA makes of a JAX program whose layers are not scanned: "
        "`xla_gpu_all_reduce_combine_threshold_bytes`)",
    )
    sharding_by: Literal["slices", "tensors"] = Field(
        default="slices",
        description="for `sharding: zero-1`: each copy has the state of a slice of every bucket (`slices`), or of some "
        "`tensors` as a whole: then all copies get the sum of all gradients, and each broadcasts the weights that it "
        "has updated, one after the other (PyTorch's ZeroRedundancyOptimizer, InternLM)",
    )
    sharding_copies: ShardingCopies = Field(
        default="none",
        description="for `sharding: zero-3`: what GPUs copy around its collectives: nothing, `parameters` (gathered "
        "weights into tensors of their own and gradients into one buffer: FSDP2), or, as with `zero-2`, gradients "
        "alone into a `flat` tensor that weights are views of (FSDP1; `flat-padded` until PyTorch 2.0)",
    )
    gradient_kernels: GradientKernels = Field(
        default="none",
        description="whose kernels move gradients beside products, collectives and the update, where all GPUs have all "
        "of them: nobody's (`none`), PyTorch's sums over micro-batches (`autograd`), or the sums, casts, divisions "
        "and norms of `deepspeed-bf16` (its BF16_Optimizer, `deepspeed-bf16-0.12` from 2023 until release 0.14), "
        "`deepspeed-zero` (its stages 0 to 2 from July 2021 on; `zero-2`, with `overlap: false`, reduces each stretch "
        "of a bucket to the GPU that updates it), `internlm`, `megatron` or `megatron-llama` (its "
        "OverlappedDistributedOptimizer, with `zero-2`)",
    )
    masks: Literal["none", "host"] = Field(
        default="none",
        description="for `compute.launch: blocking`: before it goes forward with a micro-batch, the process of the "
        "first stage, and that of the last, makes a mask of attention on the `host`, which the GPU waits for "
        "(Megatron-DeepSpeed's stages from 2023 until July 2024); or nobody does (`none`)",
    )
    recompute: Recompute = Field(
        default="none",
        description="activations that are not kept but computed again in backward: `attention` (its products and what "
        "is between them, Megatron-LM's `--recompute-activations`), `selective` (the same, but of blocks with fused "
        "attention, which has nothing for each pair of tokens, every second product and what is none), `full` (all "
        "but the input of each block), or, in a transformer, `pointwise` (what is no product nor attention: MaxText's "
        "`minimal_flash`) or `pointwise+attention` (what is no product: JAX's `checkpoint_dots`)",
    )
    recompute_blocks: Count | None = Field(
        default=None,
        description="for `recompute`: so many blocks of every stage, the first of each of its `chunks`, are computed "
        "again and the others keep everything (Megatron-LM's `--recompute-method block --recompute-num-layers`, NeMo's "
        "`activations_checkpoint_num_layers`); all blocks, if not given",
    )
    offload: Literal["none", "optimizer", "activations", "optimizer+activations"] = Field(
        default="none",
        description="what lies in the host's memory: the state of the `optimizer`, which the host updates by gradients "
        "that are copied there and weights that come back (ZeRO-Offload), or `activations`, each layer's copied out "
        "behind its pass forward and fetched one layer ahead of its pass backward; or both (`optimizer+activations`)",
    )
    messages: Literal["beside", "awaited", "paired"] = Field(
        default="beside",
        description="what stages hand over is sent `beside` compute, to a rank that has a buffer for it; or it is "
        "`awaited`: it sets off when both ranks are there, and both wait until it has arrived (DeepSpeed's pipeline); "
        "or `paired`, the same with what goes and comes between two stages at once (Megatron-LM's 1F1B)",
    )
    handed: Literal["in-shares", "whole"] = Field(
        default="in-shares",
        description="the GPUs that split a stage's layers all have the whole of what it hands over: each sends a share "
        "of it to its partner in the next stage, where the shares are gathered (`in-shares`; Megatron-LM until 2023), "
        "or all of it (`whole`; OneFlow)",
    )
    sequence_parallel: bool = Field(
        default=False, description="GPUs that split layers also split what lies between those, along the sequence"
    )
    input_sums: InputSums = Field(
        default="joined",
        description="GPUs that split layers add up the gradient of what several matrices read once (`joined`), or once "
        "for `each` of queries, keys, values and the halves of a gated layer (ATorch); without `sequence_parallel`",
    )
    gather_overlap: bool = Field(
        default=False,
        description="for `sharding: zero-1` or `zero-2`: weights are gathered, bucket by bucket, beside the first pass "
        "forward after their update, each layer waiting for its own bucket, and not all of them at the end of an "
        "iteration (Megatron-LM's `--overlap-param-gather`)",
    )
    gathers: Literal["update", "micro-batch"] = Field(
        default="update",
        description="for `sharding: zero-2`: weights are gathered behind every `update`, or ahead of the pass forward "
        "of every `micro-batch`, whose backward frees them (FSDP's `SHARD_GRAD_OP`, unless within `no_sync`): all at "
        "once, or with overlap those of the next block beside each",
    )
    tensor_overlap: bool = Field(
        default=False,
        description="for `sequence_parallel`: what products gather and scatter goes from GPU to GPU in pieces of "
        "tokens, while each computes with the piece it has (Megatron-LM's `--tp-comm-overlap`)",
    )

    @model_validator(mode="before")
    @classmethod
    def _interleaved_has_chunks(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("schedule") == "interleaved" and value.get("pipeline", 2) != 1:
            return {"chunks": 2, **value}
        return value

    @model_validator(mode="after")
    def _keys_fit_the_kind(self) -> Self:
        beside = self._ring_without_context() if self.kind == "grid" else self._keys_of_grid()
        mistakes = [*self._keys_of_other_kinds(), *self._blocks_without_recompute(), *beside]
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
        message = "in a ring are the GPUs that have some tokens each of every sequence; say how many with context, or "
        return [Mistake(f"{message}leave context_method out", key="context_method", got="ring", allowed="with context")]

    def _blocks_without_recompute(self) -> list[Mistake]:
        if self.recompute_blocks is None or self.recompute != "none":
            return []
        message = "these are blocks that are computed again; say what of them with recompute, such as recompute: full"
        got = str(self.recompute_blocks)
        return [Mistake(f"{message}, or leave it out", key="recompute_blocks", got=got, allowed="with recompute")]

    def _keys_of_grid(self) -> list[Mistake]:
        of_kinds = [key for keys in KEYS_OF_KIND.values() for key in keys]
        others = (key for key in type(self).model_fields if key not in ("kind", "data", *of_kinds))
        mistakes = [
            Mistake(
                f"{self.kind} lays the model over all GPUs by itself; leave {key} out",
                key=key,
                got=_as_yaml(getattr(self, key)),
                allowed=f"kind: {self.kind} without it, or kind: grid",
            )
            for key in others
            if _is_set(getattr(self, key), type(self).model_fields[key].default)
        ]
        if self.scheme == "gathered" and self.update_every_pass:
            message = "of samples that are gathered there is one pass, after which everything is updated"
            mistakes.append(
                Mistake(message, key="update_every_pass", got="true", allowed="false, or scheme: one-by-one, in-shares")
            )
        return mistakes

    @property
    def num_passes(self) -> int:
        """How many times something goes forward and backward in an iteration: micro-batches, in parts of sequences."""
        return self.micro_batches * self.time_chunks

    @property
    def sliced(self) -> str | None:
        """What copies share out in slices of every bucket; None where it is nothing, or whole tensors."""
        return self.sharding if self.sharding_by == "slices" else None

    def offloads(self, what: str) -> bool:
        """Say whether something lies in the host's memory: the `optimizer`'s state, or `activations`."""
        return what in self.offload.split("+")

    def is_plain(self, num_gpus: int) -> bool:
        """Say whether every GPU trains a copy of the whole model, on all of its batch at once."""
        if self.kind != "grid":
            return False
        one_pass = self.num_passes == 1 and self.chunks == 1 and self.stages is None
        is_shared_out = self.sharding is not None or self.sharding_over is not None or self.sharding_by != "slices"
        is_shared_out = is_shared_out or self.sharding_copies != "none" or self.gradient_kernels != "none"
        is_shared_out = is_shared_out or self.masks != "none"
        whole = one_pass and not is_shared_out and self.recompute == "none" and not self.sequence_parallel
        beside = self.offload == "none" and not self.tensor_overlap and not self.gather_overlap
        return whole and beside and self.grid(num_gpus).data == num_gpus

    def grid(self, num_gpus: int) -> Grid:
        """Return the ranks in their box; raise InputError where the degrees do not make so many GPUs."""
        if self.kind == "local-fields":
            num_tiles = self.tiles_on(num_gpus).num
            return Grid(data=num_gpus // num_tiles, pipeline=num_tiles, tiled=True)
        if self.kind == "paths":
            return Grid(data=self.data or 1, pipeline=self._gpus_per_replica(num_gpus), tiled=True)
        degrees = {axis: getattr(self, axis) for axis in ("tensor", "data", "pipeline")}
        beside = {"context": self.context or 1, "expert": self.expert or 1}
        missing = [axis for axis, size in degrees.items() if size is None]
        product = prod(size or 1 for size in (*degrees.values(), *beside.values()))
        free = "data" if "data" in missing else missing[0] if len(missing) == 1 else None
        if num_gpus % product or (product != num_gpus and free is None):
            raise InputError(self._product_mistake(num_gpus, exact=free is None))
        known: dict[str, Any] = {axis: size or 1 for axis, size in (degrees | beside).items()}
        if free is not None:
            known[free] = num_gpus // product
        return self._with_shard_groups(Grid(**known))

    def _with_shard_groups(self, grid: Grid) -> Grid:
        """Return the same ranks in groups that share out; raise InputError where copies do not divide into such."""
        num, copies = self.sharding_over, grid.num_replicas
        if num is None or num == copies:
            return grid
        if copies % num:
            sizes = [size for size in range(1, copies + 1) if copies % size == 0]
            near = min(sizes, key=lambda size: (abs(size - num), size))
            raise InputError(
                f"{_counted(copies, 'copy does', 'copies do')} not divide into groups of {num} that share out among "
                f"them what they have; the nearest size that works is {near}",
                key="sharding_over",
                got=str(num),
                allowed=str(near),
            )
        return replace(grid, sharding_over=num)

    def tiles_on(self, num_gpus: int) -> Tiles:
        """Return the tiles of a copy; raise InputError where they and the copies do not make so many GPUs."""
        each = self._gpus_per_replica(num_gpus)
        if self.tiles is None:
            return _near_square(each)
        tiles = Tiles(*self.tiles)
        if tiles.num == each or (self.data is None and num_gpus % tiles.num == 0):
            return tiles
        near = min(
            (Tiles(rows, each // rows) for rows in range(1, each + 1) if each % rows == 0), key=_distance_from(tiles)
        )
        copies = "" if self.data is None else f" of each of {self.data} copies"
        raise InputError(
            f"{tiles.rows} x {tiles.columns} tiles are not the {each} GPUs{copies}; the nearest grid that is them is "
            f"tiles: [{near.rows}, {near.columns}]",
            key="tiles",
            got=f"[{tiles.rows}, {tiles.columns}]",
            allowed=f"[{near.rows}, {near.columns}]",
        )

    def _gpus_per_replica(self, num_gpus: int) -> int:
        """Return the GPUs of each of `data` copies, of one if that is not given."""
        if num_gpus % (self.data or 1):
            raise InputError(self._product_mistake(num_gpus, exact=False))
        return num_gpus // (self.data or 1)

    def _product_mistake(self, num_gpus: int, exact: bool) -> Mistake:
        axes = ("data", "pipeline", "tensor", "expert", "context")
        given = {axis: size for axis in axes if (size := getattr(self, axis)) is not None}
        mistake = product_mistake(given, num_gpus, exact)
        left = num_gpus // (self.data or num_gpus)
        if exact and self.kind == "grid" and list(given) == ["data"] and self.data and self.data * left == num_gpus:
            message = f"{mistake.message}; or give each copy {left} GPUs, such as tensor: {left} or pipeline: {left}"
            return replace(mistake, message=message)
        return mistake


def _near_square(num: int) -> Tiles:
    """Return so many tiles in as many columns as rows, or as few more as may be.

    >>> _near_square(12)
    Tiles(rows=3, columns=4)
    """
    rows = max(rows for rows in range(1, isqrt(num) + 1) if num % rows == 0)
    return Tiles(rows, num // rows)


def _distance_from(tiles: Tiles) -> Callable[[Tiles], tuple[int, int]]:
    """Return what says how far another grid is from one."""
    return lambda other: (abs(other.rows - tiles.rows) + abs(other.columns - tiles.columns), other.rows)


def _is_set(value: Any, default: Any) -> bool:
    """Say whether a value is another than that of a key left out; a degree of one is none."""
    is_one = value == 1 and not isinstance(value, bool)
    return bool(value != default and not is_one)


def _as_yaml(value: Any) -> str:
    """Return a value as a scenario writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _counted(number: int, one: str, several: str) -> str:
    """Return a number of things in words."""
    return f"{number} {one if number == 1 else several}"


def micro_batch_of(parallelism: Parallelism, grid: Grid, global_batch: int) -> int:
    """Return the samples of one micro-batch: the global batch over the copies and their micro-batches."""
    parts = grid.data * grid.expert * parallelism.micro_batches
    if global_batch % parts:
        below = global_batch // parts * parts
        near: Any = f"{below} or {below + parts}" if below else parts
        copies = _counted(grid.data * grid.expert, "copy", "copies")
        micro_batches = _counted(parallelism.micro_batches, "micro-batch", "micro-batches")
        raise InputError(
            f"a batch of {global_batch} does not divide over {copies} of the model with {micro_batches} each; the "
            f"nearest batch that does is {near}",
            key="micro_batches",
            got=str(parallelism.micro_batches),
            allowed=f"a global batch that is a multiple of {parts}",
        )
    return global_batch // parts
