"""Warnings about settings of a scenario that change nothing, and about results that are easily misread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from clustersim.hardware.gpu_name import split_name
from clustersim.model import PRECISIONS, Layer
from clustersim.model.casts import casts_alike
from clustersim.model.shared_weights import shared_weights
from clustersim.parallelism.masks import mask_seconds
from clustersim.parallelism.recomputation import recomputed
from clustersim.results import Run
from clustersim.scenario import Point
from clustersim.scenario.software_keys import FIELDS, as_written
from clustersim.simulate.outcome import Outcome
from clustersim.simulate.setup import Setup
from clustersim.stragglers import TimedSlowdown
from clustersim.strategies import Servers
from clustersim.units import format_duration

_COPIED_BY_THE_GPU = ("pytorch", "pytorch-view")

_HOST_BOUND = 0.1
"""Share of an iteration from which on waiting for the host is told."""

_SLOT_IS_SLOW = 0.9
"""Share of the network's rate below which the slots of its cards are told to be slower."""

_FEW_ROUNDS = 3
"""Rounds of gradients of all workers below which figures of workers at their own pace are told to be uncertain."""

_MUCH_COMMUNICATION = 0.25
"""Share of an iteration from which on exposed communication limits the gain of faster matrix products."""


def scenario_warnings(setup: Setup, run: Run, outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    """Return the warnings about a run from the outcomes of its replicates."""
    found = (
        *_unsteady(setup, outcomes),
        *_warnings_about_the_run(setup, run),
        *setup.point.strategy.warnings(),
        *settings_without_effect(setup.point, setup.reference.model.layers),
        *_without_a_place(setup.point),
        *_slow_slots(setup, run),
        *_easily_misread(setup.point, run),
        *_host_bound(run),
        *_spells_after_the_end(setup.point, max(outcome.measured_s for outcome in outcomes)),
    )
    supplied = setup.point.supplied  # by the sheet of the software, which is for many layouts
    return tuple(as_written(each) for each in found if each.partition(" ")[0] not in supplied)


def _unsteady(setup: Setup, outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield what the strategy says about the time that was measured, and that few rounds were."""
    yield from dict.fromkeys(chain.from_iterable(outcome.warnings for outcome in outcomes))
    rounds = sum(outcomes[0].gradients) / setup.num_workers
    if not outcomes[0].in_step and setup.point.stragglers and rounds < _FEW_ROUNDS:
        yield (
            f"only {rounds:.2g} rounds of gradients of all workers are measured, and workers are not in step: figures "
            "from so few are uncertain; raise num_iterations"
        )


def _slow_slots(setup: Setup, run: Run) -> Iterator[str]:
    """Yield that the network cards of a host are in slots that are slower than the network."""
    if not run.cards:
        return
    links, hosts = setup.topology.links, setup.topology.node_domains
    host = hosts[setup.topology.gpus[setup.gpus(0)[0]]]
    out = (hosts[links.src] == host) & (hosts[links.dst] != host)
    cards = np.unique(links.src[out])
    inside = (hosts[links.src] == host) & (hosts[links.dst] == host) & np.isin(links.src, cards)
    if not inside.any():
        return
    network, slot = float(links.bytes_per_s[out].max()), float(links.bytes_per_s[inside].max())
    if slot < _SLOT_IS_SLOW * network:
        yield (
            f"the network cards' links to the host carry {8e-9 * slot:.3g} Gbit/s, and the network "
            f"{8e-9 * network:.3g}: "
            "a faster network changes little (topology.host: nic_link, pcie)"
        )


def _without_a_place(point: Point) -> Iterator[str]:
    """Yield the settings of the software that the strategy of the scenario does not have."""
    for name in point.software.model_fields_set - {"name"}:
        path = FIELDS[name].path
        if path[0] == "strategy" and getattr(point.software, name) is not None and not _has(point.strategy, path[1:]):
            yield f"software.{name} changes nothing: {point.strategy.kind} has no such setting"


def _has(part: object, path: Sequence[str | int]) -> bool:
    for key in path:
        if not hasattr(part, str(key)):
            return False
        part = getattr(part, str(key))
    return True


def _warnings_about_the_run(setup: Setup, run: Run) -> Iterator[str]:
    """Yield what the run shows about settings: those that had no effect, and adapters that were not used."""
    strategy, prices = setup.point.strategy, setup.point.prices
    names = {name for kind in setup.kinds_in_use for name in (kind, split_name(kind)[0])}
    if prices and not names & prices.keys():
        used = ", ".join(setup.kinds_in_use)
        yield f"prices changes nothing: it has {', '.join(prices)}, and the GPUs of this run are {used}"
    if run.interval is not None and run.interval.iteration_s[0] == run.interval.iteration_s[1]:
        yield "all replicates are the same: nothing in this scenario is random"
    if run.num_gpus > 1:
        unused = sorted(_kinds_outside_hosts(setup) - {links.kind for links in run.link_classes if links.num_used})
        if unused and setup.topology.num_hosts > 1:
            yield f"no message left a host over links of kind {', '.join(unused)}: changing them changes nothing"
        is_set = bool({"overlap", "buckets"} & strategy.model_fields_set)
        if is_set and strategy.overlaps_backward and len(run.buckets) == 1:
            yield "all gradients travel in one bucket: overlap can hide no communication"
    servers = getattr(strategy, "servers", None)
    if isinstance(servers, Servers) and servers.pull == "together":
        has_one_server = servers.num == 1 or servers.whole not in (False, "hashed")
        if has_one_server and len(run.buckets) == 1:
            yield "strategy.servers.pull changes nothing: one server sends the only bucket"
    if setup.point.is_plain and run.adapters is not None and run.adapters[0] < run.adapters[1]:
        num_used, num_adapters = run.adapters
        yield (
            f"messages leave a host through {num_used} of its {num_adapters} network adapters; a library that uses all "
            "of them is faster than this forecast, such as NCCL with several rings (transport nccl)"
        )


def _host_bound(run: Run) -> Iterator[str]:
    """Yield a sentence if GPUs wait for their hosts for a good part of an iteration."""
    waited_s = run.breakdown_s["host"]
    if waited_s >= _HOST_BOUND * run.iteration_s:
        yield (
            f"host-bound: GPUs wait {waited_s / run.iteration_s:.0%} of each iteration because their hosts have not "
            "issued the next kernel yet. CUDA graphs, which issue all kernels at once, would save "
            f"{format_duration(waited_s)} of {format_duration(run.iteration_s)} at most"
        )


def _kinds_outside_hosts(setup: Setup) -> set[str]:
    """Return the kinds of the links that are not inside a host."""
    links, hosts = setup.topology.links, setup.topology.node_domains
    names, kinds = setup.topology.link_kinds
    outside = (hosts[links.src] != hosts[links.dst]) | (hosts[links.src] < 0)
    return {names[kind] for kind in np.unique(kinds[outside]).tolist()}


def _easily_misread(point: Point, run: Run) -> Iterator[str]:
    """Yield what the node numbers of a graph refer to, and why 8-bit products gain little."""
    strategy = point.strategy
    if strategy.node_keys & strategy.model_fields_set and not point.is_plain:
        copies = point.grid.num_replicas
        yield (
            f"the nodes of strategy.graph are copies of the model, not GPUs: {copies} copies, numbered from 0, on "
            f"{point.num_gpus // copies} GPUs each"
        )
    share = run.breakdown_s["communication_exposed"] / run.iteration_s
    if PRECISIONS[point.precision].base and share >= _MUCH_COMMUNICATION:
        yield (
            f"{point.precision} makes matrix products faster but no message smaller: gradients, weights and "
            f"activations are sent in 16 bits or more, and exposed communication is {share:.0%} of an iteration"
        )


def _spells_after_the_end(point: Point, end_s: float) -> Iterator[str]:
    """Yield which slow periods at given times begin after the measured time of every replicate."""
    for number, spec in enumerate(point.stragglers):
        given: list[float] = spec.at or [] if isinstance(spec, TimedSlowdown) else []
        missed = [time_s for time_s in given if time_s >= end_s]
        if missed:
            yield (
                f"stragglers.{number}.at: the measured time lasts {format_duration(end_s)}, so {spec.kind} at "
                f"{', '.join(map(format_duration, missed))} change nothing; raise num_iterations to reach them"
            )


def settings_without_effect(point: Point, layers: Sequence[Layer]) -> Iterator[str]:
    """Yield which keys of a scenario change nothing, and why: of its work, of its layout and of its strategy."""
    groups = [_in_the_work(point, layers)]
    if point.parallelism.kind == "grid":
        groups += [
            _in_splits(point, layers),
            _in_sharding(point),
            _in_host_and_kernel_work(point, layers),
            _in_the_strategy_of_a_layout(point),
        ]
    return chain.from_iterable(groups)


def _in_the_work(point: Point, layers: Sequence[Layer]) -> Iterator[str]:
    """Yield the keys without effect that apply with every layout."""
    for key in ("casts", "wide_share"):
        if key in point.compute.model_fields_set and not PRECISIONS[point.precision].base:
            yield f"compute.{key} changes nothing: products of {point.precision} are not cast to 8 or 4 bits"
    if "casts" in point.compute.model_fields_set and PRECISIONS[point.precision].base:
        same = casts_alike(point.compute.casts, point.precision)
        if same:
            yield f"compute.casts changes nothing: with {point.precision}, {point.compute.casts} is simulated as {same}"
    given = point.topology.model_fields_set
    if "spines" in given and getattr(point.topology, "routing", "") == "adaptive":
        yield "topology.spines changes nothing: with adaptive routing the uplinks of a leaf act as one"
    if point.strategy.sends_shared_twice and not shared_weights(layers):
        yield "strategy.shared_weights changes nothing: no two layers of the model share weights"
    if point.optimizer.issue is not None and point.num_gpus == 1:
        yield "optimizer.issue changes nothing: one GPU's process waits for no sums, and issues its update ahead"
    if point.strategy.blocks_parents and point.num_gpus == 1:
        yield "strategy.stream changes nothing: one GPU copies nothing to another"


def _in_splits(point: Point, layers: Sequence[Layer]) -> Iterator[str]:
    """Yield the keys without effect about stages, split layers, experts and recomputation.

    A schedule orders passes. So it changes the memory even on one stage, but not where there is one pass.
    """
    layout, given, grid = point.parallelism, point.parallelism.model_fields_set, point.grid
    for key in ("expert_imbalance", "expert_exchange", "expert_hosts", "dispatched"):
        if key in given and grid.expert == 1:
            yield f"parallelism.{key} changes nothing: experts are not distributed (expert is 1)"
    if "balance" in given and grid.pipeline == 1:
        yield "parallelism.balance changes nothing: all layers are on one stage (pipeline is 1)"
    if "balance" in given and grid.pipeline > 1 and layout.stages is not None:
        yield "parallelism.balance changes nothing: stages says how many layers each has"
    if "messages" in given and layout.messages != "beside" and grid.pipeline == 1:
        yield "parallelism.messages changes nothing: all layers are on one stage (pipeline is 1)"
    if layout.handed == "whole" and 1 in (grid.pipeline, grid.tensor):
        yield "parallelism.handed changes nothing: no stage sends what several GPUs have (pipeline or tensor is 1)"
    if layout.recompute != "none" and not any(recomputed(layers, layout.recompute)):
        yield f"parallelism.recompute changes nothing: the model has nothing that {layout.recompute} recomputes"
    if layout.input_sums == "each" and grid.tensor == 1:
        yield "parallelism.input_sums changes nothing: layers are not split (tensor is 1)"
    has_one_pass = grid.pipeline == 1 and layout.num_passes == 1
    if "schedule" in given and layout.schedule in ("gpipe", "1f1b") and has_one_pass:
        yield "parallelism.schedule changes nothing: there is one micro-batch on one stage"


def _in_sharding(point: Point) -> Iterator[str]:
    """Yield the keys without effect about sharding."""
    layout, given, grid = point.parallelism, point.parallelism.model_fields_set, point.grid
    if "gather_overlap" in given and layout.gather_overlap and grid.num_replicas == 1:
        yield "parallelism.gather_overlap changes nothing: there is one copy, which has no weights to gather"
    if "gathers" in given and layout.gathers == "micro-batch" and grid.shard_group_size == 1:
        yield "parallelism.gathers changes nothing: nothing is sharded (one rank has it all)"
    if "sharding_copies" in given and layout.sharding_copies != "none" and grid.shard_group_size == 1:
        yield "parallelism.sharding_copies changes nothing: nothing is sharded (one rank has it all)"
    if "joined_sums" in given and grid.shared_over is None:
        yield "parallelism.joined_sums changes nothing: no two groups have the same shards (there is one group)"


def _in_host_and_kernel_work(point: Point, layers: Sequence[Layer]) -> Iterator[str]:
    """Yield the keys without effect about kernels of gradients and masks of the host."""
    layout = point.parallelism
    if layout.gradient_kernels == "autograd" and layout.num_passes == 1:
        yield "parallelism.gradient_kernels changes nothing: autograd adds nothing up where there is one micro-batch"
    if layout.masks == "host" and not mask_seconds(layers):
        yield "parallelism.masks changes nothing: a mask of the model's attention takes no memory new to its process"


def _in_the_strategy_of_a_layout(point: Point) -> Iterator[str]:
    """Yield the keys of the strategy that a layout leaves without effect."""
    layout, grid, given = point.parallelism, point.grid, point.strategy.model_fields_set
    copies = getattr(point.strategy, "copies", "")
    if "copies" in given and grid.num_replicas == 1 and copies not in ("auto", "none"):
        yield "strategy.copies changes nothing: there is one copy of the model, which sends no gradients"
    is_awaited = layout.sharding == "zero-2" and not layout.offloads("optimizer") and grid.shared_over is None
    if "overlap" in given and layout.sharding in ("zero-2", "zero-3") and not (is_awaited and grid.expert == 1):
        yield f"strategy.overlap changes nothing: with {layout.sharding} a block sends its gradients once it has them"
    if "copies" in given and (layout.sharding or layout.offloads("optimizer") or layout.schedule == "pipedream"):
        yield "strategy.copies changes nothing: gradients come into no buckets with sharding, offload or pipedream"
    encodes = point.compression.encode_moved(point.gradient_bytes) > 0
    if "copies" in given and encodes and copies in _COPIED_BY_THE_GPU:
        yield f"strategy.copies changes nothing: {point.compression.kind} already writes gradients into their buckets"
    if "buckets" in given and layout.sharding == "zero-3":
        yield "strategy.buckets changes nothing: with zero-3 gradients and weights travel block by block"
