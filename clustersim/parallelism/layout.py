"""The layout of a model over the ranks of a grid: parts, programs and memory of each stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from clustersim.kernels import OptimizerSpec
from clustersim.kernels.layer_times import Library
from clustersim.kernels.memory import SLACK
from clustersim.kernels.narrow_gemms import narrow_inputs, narrow_layers
from clustersim.kernels.programs.blocking_launches import COLLECTIVE_S, LAUNCH_WAIT_S
from clustersim.model import PRECISIONS, LayerTime, Model, Workload
from clustersim.parallelism.casting import casts_model, gathers_from_fp32, loss_peak_bytes
from clustersim.parallelism.compile import compile_stage
from clustersim.parallelism.context import context_parallel_pieces
from clustersim.parallelism.experts import FP8_BYTES, TokenExchange, expert_parallel_pieces, frozen_share, updated_share
from clustersim.parallelism.gradient_kernels import (
    DEEPSPEED_ZERO,
    MEGATRON_LLAMA,
    NOTHING_MOVED,
    SUMS_CAST,
    Moved,
    moved_seconds,
    waits_of,
)
from clustersim.parallelism.grid import REPLICAS, Grid
from clustersim.parallelism.historical.local_fields import (
    compile_tile,
    has_untied,
    tile_memory,
    tile_parts,
    tile_pieces,
)
from clustersim.parallelism.historical.one_weird_trick import (
    Trick,
    compile_trick,
    trick_memory,
    trick_parts,
    trick_pieces,
)
from clustersim.parallelism.historical.paths import assign_paths, compile_paths, path_memory, path_parts
from clustersim.parallelism.input_sums import with_sum_per_matrix
from clustersim.parallelism.masks import mask_seconds
from clustersim.parallelism.memory import (
    MemoryRules,
    PartInMemory,
    host_memory,
    kept_by_layer,
    part_activations,
    stage_memory,
)
from clustersim.parallelism.memory_over_time import StageMemory
from clustersim.parallelism.offload import ACTIVATIONS, OPTIMIZER, Offload
from clustersim.parallelism.piece_times import piece_times
from clustersim.parallelism.pieces import Piece
from clustersim.parallelism.plan import SAMPLES, Part, Rules, StagePlan, with_fixed, with_host
from clustersim.parallelism.recomputation import block_starts, check_blocks, in_first_blocks, recomputed
from clustersim.parallelism.recurrent import time_chunk_pieces
from clustersim.parallelism.route import Route, route_of
from clustersim.parallelism.schedules import SCHEDULES, in_flight_counts, peak_pass
from clustersim.parallelism.sharding_copies import NO_COPIES, BufferCopies, buffer_copies
from clustersim.parallelism.slot import Slot
from clustersim.parallelism.spec import Parallelism
from clustersim.parallelism.split import split_model
from clustersim.parallelism.stages import (
    balanced_starts,
    boundary_elements,
    check_parts,
    cut_points,
    even_starts,
    explicit_starts,
)
from clustersim.parallelism.tensor_overlap import with_ring_steps
from clustersim.parallelism.tensor_owners import largest_share
from clustersim.parallelism.updates import StageUpdate, stage_update
from clustersim.program.buckets import Caps
from clustersim.program.exchange_buffers import NO_EXCHANGE_BUFFERS, ExchangeBuffers
from clustersim.program.ops import UPDATE, Key, Read

_FP32_BYTES = 4.0


@dataclass(frozen=True)
class TrainingSetup:
    """What a layout needs about the training: times of the undivided layers for a micro-batch, and how it trains.

    `caps` are those of gradient buckets in bytes, None for one bucket; `overlap` says whether their exchange begins
    during the backward pass. `work_at` returns the times of the undivided layers at another batch, for a layout whose
    layers have different batches. `copied_bytes` are those of a sample that is copied to a GPU, if samples have to be
    waited for; `buffers` is the memory of communication buffers. `groups_apart`: groups of replicas that shard are the
    workers of the strategy, which combines their weights.
    """

    whole: Workload
    optimizer: OptimizerSpec
    library: Library
    caps: Caps
    overlap: bool
    work_at: Callable[[int], Workload] | None = None
    copied_bytes: float | None = None
    groups_apart: bool = False
    buffers: ExchangeBuffers = NO_EXCHANGE_BUFFERS


@dataclass(frozen=True)
class ModelLayout:
    """A model over the ranks of a grid: its parts in order, and the plan and the memory in bytes of each stage.

    `replica_axes` are the axes along which ranks have the same parameters. `host_memory` is what a rank of each stage
    stores in host memory.
    """

    grid: Grid
    parts: tuple[Part, ...]
    plans: tuple[StagePlan, ...]
    memory: tuple[dict[str, float], ...]
    replica_axes: tuple[str, ...] = REPLICAS
    held: tuple[StageMemory, ...] = ()  # empty if memory over time is unknown
    host_memory: tuple[dict[str, float], ...] = ()
    route: Route | None = None  # of micro-batches through the stages; None where parts are on the stages in a loop
    groups_apart: bool = False  # whether each group that shards is a worker of the strategy

    def parts_of(self, stage: int) -> tuple[Part, ...]:
        """Return the parts of a stage."""
        if self.route is None:
            return self.parts[stage :: self.grid.pipeline]
        return tuple(self.parts[number] for number in self.route.parts(stage))

    @property
    def fullest(self) -> dict[str, float]:
        """Memory of a rank of the stage that needs the most."""
        return max(self.memory, key=lambda held: sum(held.values()))

    @property
    def updates_per_iteration(self) -> int:
        """Number of updates in an iteration: one, or one for each micro-batch."""
        program = self.plans[0].program
        return 1 if program.staleness is None else program.num_micro_batches

    @property
    def num_settling(self) -> int:
        """Number of iterations until overlapping iterations reach their steady state, by a rule of thumb.

        That is as many as contain four times as many micro-batches as there are stages.
        """
        if self.plans[0].program.staleness is None:
            return 0
        return -(-4 * self.grid.pipeline // self.updates_per_iteration)

    @property
    def num_replicas(self) -> int:
        """Number of ranks that have the same parameters, or the same share of them, and exchange what is theirs."""
        num = prod(int(getattr(self.grid, axis)) for axis in self.replica_axes) * self.grid.num_mirrored
        return num // self.grid.shard_group_size if self.groups_apart else num

    def replicas(self) -> list[np.ndarray]:
        """Return the groups of ranks that have the same parameters, or the same share of them in different groups."""
        groups = list(self.grid.replica_groups(self.replica_axes))
        if not self.groups_apart:
            return groups
        each = self.grid.shard_group_size
        return [group[place::each] for group in groups for place in range(each)]


def lay_out(layout: Parallelism, grid: Grid, training: TrainingSetup) -> ModelLayout:
    """Return the layout of a model."""
    laid_out = _lay_out(layout, grid, training)
    return replace(laid_out, plans=tuple(with_fixed(plan, training.whole.fixed_s) for plan in laid_out.plans))


def _lay_out(layout: Parallelism, grid: Grid, training: TrainingSetup) -> ModelLayout:
    if layout.kind == "one-weird-trick":
        return _lay_out_trick(layout, grid, training)
    if layout.kind == "local-fields":
        return _lay_out_tiles(layout, grid, training)
    if layout.kind == "paths":
        return _lay_out_paths(layout, grid, training)
    whole = training.whole
    number = PRECISIONS[whole.precision]
    pieces = pieces_of(layout, grid, whole.model, number.activation_bytes)
    times = piece_times(whole, pieces, training.library)
    parts = _parts(layout, grid, training, pieces, times)
    rules = _rules(layout, grid, training)
    order = SCHEDULES[layout.schedule]
    slots = [order(stage, grid.pipeline, layout.num_passes, layout.chunks) for stage in range(grid.pipeline)]
    route = route_of(layout.schedule, grid.pipeline, layout.chunks)
    own = [[parts[number] for number in route.parts(stage)] for stage in range(grid.pipeline)]
    plans = [
        compile_stage(stage, grid, route, parts, slots[stage], _update(training, own[stage], grid), rules)
        for stage in range(grid.pipeline)
    ]
    memory_rules = _memory_rules(layout, grid, training)
    stages = [[piece for part in each for piece in part.pieces] for each in own]
    held = [
        replace(
            memory_rules,
            most_gradients=plan.most_gradients,
            share=_share(pieces_of_stage, layout, grid),
            frozen_share=frozen_share(pieces_of_stage, grid),
        )
        for plan, pieces_of_stage in zip(plans, stages, strict=True)
    ]
    memory, in_hosts = zip(*(_memory(*each) for each in zip(own, slots, held, strict=True)), strict=True)
    over_time = tuple(_memory_over_time(*each) for each in zip(own, memory, slots, held, strict=True))
    return ModelLayout(
        grid, tuple(parts), tuple(plans), memory, REPLICAS, over_time, in_hosts, route, rules.groups_apart
    )


def _rules(layout: Parallelism, grid: Grid, training: TrainingSetup) -> Rules:
    """Return the rules by which ranks of a grid exchange gradients, weights and activations."""
    whole = training.whole
    number = PRECISIONS[whole.precision]
    return Rules(
        micro_batch=whole.batch,
        caps=training.caps,
        overlap=training.overlap,
        sharding=layout.sharding,
        gradient_bytes=whole.gradient_bytes_per_parameter,
        weight_bytes=number.operand_bytes,
        sent_whole=not layout.sequence_parallel,
        in_shares=layout.handed == "in-shares",
        offload=offload_of(layout, training),
        sample_bytes=_sample_bytes(layout, training),
        gather_overlap=layout.gather_overlap,
        by_tensors=layout.sharding_by == "tensors",
        buffer_copies=_buffer_copies(layout, grid, whole),
        kernels=_gradient_kernels(layout, grid, training),
        sums_cast=layout.gradient_kernels in SUMS_CAST,
        sums_norms=layout.gradient_kernels == MEGATRON_LLAMA and layout.sequence_parallel and grid.tensor > 1,
        waits=waits_of(layout.gradient_kernels, LAUNCH_WAIT_S if whole.launch == "blocking" else 0.0),
        mask_s=mask_seconds(whole.model.layers) if layout.masks == "host" else 0.0,
        issued_s=COLLECTIVE_S if whole.launch == "blocking" else 0.0,
        num_passes=layout.num_passes,
        awaited=layout.messages != "beside",
        paired=layout.messages == "paired",
        combined_bytes=layout.joined_sums,
        blocking_buckets=_is_blocking(layout, grid, training),
        skips_update=training.optimizer.skipped,
        gathers_each_pass=layout.gathers == "micro-batch",
        host=whole.host,
        groups_apart=training.groups_apart,
        reduces_to_owners=layout.gradient_kernels == DEEPSPEED_ZERO and layout.sharding == "zero-2",
        narrow=_gathered_narrow(whole),
    )


def _gathered_narrow(whole: Workload) -> frozenset[int]:
    """Return the places in the model of layers whose weights are gathered in 8 bits."""
    if not whole.casts.gathers_narrow:
        return frozenset()
    found = narrow_layers(whole.model.layers, whole.precision, whole.casts)
    return frozenset(place for place, is_narrow in enumerate(found) if is_narrow)


def _share(pieces: Sequence[Piece], layout: Parallelism, grid: Grid) -> float:
    """Return the fraction of a stage's parameters whose state a rank has; with whole tensors the largest one."""
    if layout.sharding_by == "slices":
        return updated_share(pieces, grid)
    sizes = [float(piece.layer.num_parameters) for piece in pieces if piece.layer.num_parameters]
    return largest_share(sizes, grid.shard_group_size, layout.gather_overlap)


def _is_blocking(layout: Parallelism, grid: Grid, training: TrainingSetup) -> bool:
    """Return whether sharded gradients are exchanged bucket by bucket while compute waits: `zero-2` without overlap.

    Not with offload, shard groups or expert parallelism, whose reductions begin as soon as each block is complete.
    """
    is_by_block = layout.offloads(OPTIMIZER) or grid.shared_over is not None or grid.expert > 1
    return layout.sharding == "zero-2" and not training.overlap and not is_by_block


def offload_of(layout: Parallelism, training: TrainingSetup) -> Offload:
    """Return what is offloaded, and whether gradients leave the GPU early: that needs a single micro-batch.

    Beside the bytes that the optimizer moves in fp32, the host reads gradients and writes weights in their own formats.
    """
    whole, number = training.whole, PRECISIONS[training.whole.precision]
    written = number.operand_bytes if number.operand_bytes < _FP32_BYTES else 0.0
    moved = training.optimizer.moved_bytes_per_parameter - _FP32_BYTES + whole.gradient_bytes_per_parameter + written
    arrive_in_pieces = layout.sharding in ("zero-2", "zero-3") or (training.overlap and training.caps is not None)
    offloads_optimizer = layout.offloads(OPTIMIZER)
    frees = offloads_optimizer and layout.num_passes == 1 and arrive_in_pieces
    return Offload(offloads_optimizer, layout.offloads(ACTIVATIONS), moved, frees)


def _lay_out_trick(layout: Parallelism, grid: Grid, training: TrainingSetup) -> ModelLayout:
    """Return the layout of one-weird-trick: replicated convolutions, split fully connected layers."""
    whole, number = training.whole, PRECISIONS[training.whole.precision]
    trick = Trick(grid.data, whole.batch, layout.scheme or "in-shares", layout.update_every_pass)
    pieces, first = trick_pieces(whole.model, trick, number.activation_bytes)
    work = whole
    if trick.fc_batch != whole.batch:
        assert training.work_at is not None
        work = training.work_at(trick.fc_batch)
    times = (*whole.layers[:first], *piece_times(work, pieces, training.library)[first:])
    parts = trick_parts(trick, pieces, times, first, number.activation_bytes)
    rules = _rules_without_degrees(training)
    plan = with_host(compile_trick(trick, parts, [_update_s(whole, [part]) for part in parts], rules), whole.host, 1)
    if training.copied_bytes is not None:
        plan = replace(plan, program=replace(plan.program, parts=(Read(Key(SAMPLES, 0, 0)), *plan.program.parts)))
    held = trick_memory(trick, parts, _memory_rules(layout, grid, training))
    return ModelLayout(grid, parts, (plan,), (held,))


def _sample_bytes(layout: Parallelism, training: TrainingSetup) -> float | None:
    """Return the bytes of the samples of one pass through the stages; None if they need not be waited for."""
    if training.copied_bytes is None:
        return None
    return training.copied_bytes * training.whole.batch / layout.time_chunks


def _buffer_copies(layout: Parallelism, grid: Grid, whole: Workload) -> BufferCopies:
    """Return the copies around the collectives of weights and gradients, if replicas shard."""
    if layout.sharding_copies == "none" or grid.shard_group_size == 1:
        return NO_COPIES
    number = PRECISIONS[whole.precision]
    sizes = number.operand_bytes, whole.gradient_bytes_per_parameter
    return buffer_copies(layout.sharding_copies, whole.gpu, number.units, *sizes).scaled(whole.kernel_factor)


def _gradient_kernels(layout: Parallelism, grid: Grid, training: TrainingSetup) -> Moved:
    """Return the seconds per parameter of the kernels that process gradients."""
    if layout.gradient_kernels == "none":
        return NOTHING_MOVED
    whole, skipped = training.whole, training.optimizer.skipped
    number = PRECISIONS[whole.precision]
    sizes = number.operand_bytes, whole.gradient_bytes_per_parameter
    copies = grid.num_replicas, layout.sharding
    moved = moved_seconds(layout.gradient_kernels, whole.gpu, number.units, *sizes, *copies, skipped)
    return Moved(*(whole.kernel_factor * each for each in moved))


def _rules_without_degrees(training: TrainingSetup) -> Rules:
    """Return the rules of a layout without sharding and without pipeline stages."""
    whole = training.whole
    return Rules(
        micro_batch=whole.batch,
        caps=training.caps,
        overlap=training.overlap,
        sharding=None,
        gradient_bytes=whole.gradient_bytes_per_parameter,
        weight_bytes=PRECISIONS[whole.precision].operand_bytes,
        sent_whole=True,
    )


def _lay_out_tiles(layout: Parallelism, grid: Grid, training: TrainingSetup) -> ModelLayout:
    """Return the layout of local-fields: each GPU of a replica has a tile of every layer."""
    whole, number = training.whole, PRECISIONS[training.whole.precision]
    rows = tile_pieces(whole.model, layout.tiles_on(grid.num_ranks), number.activation_bytes)
    times = [piece_times(whole, [each.piece for each in row], training.library) for row in rows]
    parts = tile_parts(rows, times)
    rules = _rules_without_degrees(training)
    plans = [
        with_host(
            compile_tile(tile, rows, part, _update_s(whole, [part]), rules, number.activation_bytes), whole.host, 1
        )
        for tile, part in enumerate(parts)
    ]
    held = _memory_rules(layout, grid, training)
    memory = [tile_memory(row, part, held) for row, part in zip(rows, parts, strict=True)]
    axes = REPLICAS if has_untied(whole.model) else (*REPLICAS, "pipeline")
    return ModelLayout(grid, parts, tuple(plans), tuple(memory), axes)


def _lay_out_paths(layout: Parallelism, grid: Grid, training: TrainingSetup) -> ModelLayout:
    """Return the layout of paths: branches on different GPUs of a replica."""
    whole, number = training.whole, PRECISIONS[training.whole.precision]
    times, gpus = whole.layers, range(grid.pipeline)
    segments = assign_paths(times, grid.pipeline)
    parts, rules = path_parts(segments, times, grid.pipeline), _rules_without_degrees(training)
    element = number.activation_bytes * whole.batch
    plans = [compile_paths(gpu, segments, times, _update_s(whole, [parts[gpu]]), rules, element) for gpu in gpus]
    plans = [with_host(plan, whole.host, grid.pipeline) for plan in plans]
    memory = [path_memory(gpu, segments, times, _memory_rules(layout, grid, training)) for gpu in gpus]
    return ModelLayout(grid, parts, tuple(plans), tuple(memory))


def pieces_of(layout: Parallelism, grid: Grid, model: Model, activation_bytes: float) -> tuple[Piece, ...]:
    """Return a GPU's piece of every layer: some of its columns, heads or filters, of its experts, of its tokens.

    The pieces are those of one pass, of a chunk of each sequence if there are time chunks.
    """
    pieces = split_model(model, grid.tensor, activation_bytes, layout.sequence_parallel, grid.num_ranks)
    pieces = with_sum_per_matrix(pieces) if layout.input_sums == "each" else pieces
    there_bytes = FP8_BYTES if layout.dispatched == "fp8" else activation_bytes
    exchange = TokenExchange(there_bytes, activation_bytes, layout.expert_exchange, layout.expert_hosts)
    pieces = expert_parallel_pieces(pieces, grid.expert, layout.expert_imbalance, exchange)
    is_ring = layout.context_method == "ring"
    pieces = context_parallel_pieces(pieces, grid.context, activation_bytes, is_ring, grid.num_ranks)
    pieces = time_chunk_pieces(pieces, layout.time_chunks)
    return with_ring_steps(pieces, grid.tensor) if layout.tensor_overlap else pieces


def part_starts(
    layout: Parallelism, grid: Grid, training: TrainingSetup, pieces: Sequence[Piece], times: Sequence[LayerTime]
) -> list[int]:
    """Return the first layer of each part."""
    layers, num_parts = [piece.layer for piece in pieces], grid.pipeline * layout.chunks
    if layout.stages is not None:
        return explicit_starts(layout.stages, len(layers), num_parts)
    if num_parts == 1:
        return [0]
    cuts = cut_points(layers)
    check_parts(num_parts, layout.chunks, cuts, len(layers))
    if layout.balance == "blocks":
        return even_starts(cuts, len(layers), num_parts)
    if layout.balance == "time":
        return balanced_starts([time.forward_s + time.backward_s for time in times], cuts, num_parts)
    number = PRECISIONS[training.whole.precision]
    kept = training.whole.batch * layout.num_passes * number.activation_bytes
    state = training.optimizer.state_bytes_per_parameter
    held = number.weight_bytes + number.master_bytes + _gradient_bytes(training.whole) + state
    return balanced_starts(
        [layer.num_parameters * held + layer.output_elements * kept for layer in layers], cuts, num_parts
    )


def _parts(
    layout: Parallelism, grid: Grid, training: TrainingSetup, pieces: Sequence[Piece], times: Sequence[LayerTime]
) -> list[Part]:
    layers = [piece.layer for piece in pieces]
    starts = part_starts(layout, grid, training, pieces, times)
    blocks, recomputes = block_starts(layers), recomputed(layers, layout.recompute)
    undivided = training.whole.model.layers
    sample_bytes = PRECISIONS[training.whole.precision].activation_bytes * training.whole.batch
    shares, parts = grid.context * layout.time_chunks, []
    spans = list(zip(starts, [*starts[1:], len(pieces)], strict=True))
    units_of = [(0, *(block - first for block in blocks if first < block < end)) for first, end in spans]
    if layout.recompute_blocks is not None:
        check_blocks([recomputes[first:end] for first, end in spans], units_of, layout.recompute_blocks)
    for (first, end), units in zip(spans, units_of, strict=True):
        entry = boundary_elements(undivided, first) * sample_bytes / shares if first else 0.0
        own = tuple(pieces[first:end])
        repeated = tuple(in_first_blocks(recomputes[first:end], units, layout.recompute_blocks))
        kept: tuple[float, ...] = ()
        if layout.offloads(ACTIVATIONS):
            each = kept_by_layer(PartInMemory(own, 0.0, units, repeated), _memory_rules(layout, grid, training))
            kept = tuple(training.whole.batch * num_bytes for num_bytes in each)
        parts.append(Part(first, own, tuple(times[first:end]), repeated, units, entry, kept))
    return parts


def _update(training: TrainingSetup, parts: Sequence[Part], grid: Grid) -> StageUpdate:
    """Return the optimizer's update of a stage."""
    pieces = [piece for part in parts for piece in part.pieces]
    return stage_update(training.whole, training.optimizer, pieces, grid)


def _update_s(whole: Workload, parts: Sequence[Part]) -> float:
    """Return the seconds of the optimizer for a stage's parameters, in proportion to those of the model."""
    held = sum(piece.layer.num_parameters for part in parts for piece in part.pieces)
    return whole.optimizer_s * held / whole.model.num_parameters if whole.model.num_parameters else 0.0


def _memory(parts: Sequence[Part], slots: list[Slot], rules: MemoryRules) -> tuple[dict[str, float], dict[str, float]]:
    """Return what a rank of a stage stores on the GPU and in host memory."""
    held = [PartInMemory(part.pieces, 0.0, part.units, part.recomputes) for part in parts]
    own = [part_activations(part, rules) for part in held]
    peak = peak_pass(slots, [each.kept for each in own], [each.recomputed for each in own])
    in_flight = in_flight_counts(slots)[peak].tolist()
    if any(slot.phase == UPDATE for slot in slots):
        rules = replace(rules, versions=int(in_flight[0]))
    at_peak = [
        replace(part, in_flight=number, goes_backward=chunk == slots[peak].chunk)
        for chunk, (part, number) in enumerate(zip(held, in_flight, strict=True))
    ]
    return stage_memory(at_peak, rules), host_memory(at_peak, rules)


def _memory_over_time(
    parts: Sequence[Part], memory: Mapping[str, float], slots: Sequence[Slot], rules: MemoryRules
) -> StageMemory:
    """Return a rank's memory per micro-batch, and its constant part; at the peak they add up to `memory`.

    If activations are offloaded, those on the GPU do not grow with the number of micro-batches in flight.
    """
    held = [PartInMemory(part.pieces, 0.0, part.units, part.recomputes) for part in parts]
    own = [part_activations(part, rules) for part in held]
    each = (1 + SLACK) * rules.micro_batch
    kept = tuple(0.0 if rules.offload_activations else each * part.kept for part in own)
    recomputed_bytes = tuple(each * part.recomputed for part in own)
    peak = peak_pass(slots, kept, recomputed_bytes)
    at_peak = float(in_flight_counts(slots)[peak] @ np.array(kept)) + recomputed_bytes[slots[peak].chunk]
    return StageMemory(kept, recomputed_bytes, sum(memory.values()) - at_peak)


def _memory_rules(layout: Parallelism, grid: Grid, training: TrainingSetup) -> MemoryRules:
    whole = training.whole
    return MemoryRules(
        micro_batch=whole.batch,
        precision=whole.precision,
        optimizer=training.optimizer,
        sharding=layout.sharding,
        share=1 / grid.shard_group_size,
        offload=layout.offloads(OPTIMIZER),
        offload_activations=layout.offloads(ACTIVATIONS),
        gradient_bytes=_gradient_bytes(whole),
        weight_share=whole.model.weight_share,
        casts_all=casts_model(layout, grid),
        from_fp32=gathers_from_fp32(layout),
        loss_bytes=loss_peak_bytes(training.library, grid),
        buffers=training.buffers,
        narrow=narrow_inputs(whole.model, whole.precision, whole.casts),
    )


def _gradient_bytes(whole: Workload) -> float:
    """Return the bytes of a gradient in memory: as exchanged, divided by the weight share of the model."""
    return whole.gradient_bytes_per_parameter / whole.model.weight_share
