"""Everything a point of a scenario needs before the simulation starts: cluster, devices, workloads and plans."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property, lru_cache

import numpy as np

from clustersim.errors import InputError
from clustersim.hardware import LINKS, load_cpu, load_gpu, load_link, load_transport
from clustersim.hardware.boards import other_boards
from clustersim.hardware.sheet import Sheet, Transport
from clustersim.hardware.speeds import HOST, Speeds, transport_at
from clustersim.kernels import Compression, check_memory
from clustersim.model import LayerTime, Workload, parameter_tensors
from clustersim.model.casts import casts_of
from clustersim.model.layer import NO_HOST
from clustersim.model.shared_weights import by_row, shared_weights
from clustersim.parallelism import ModelLayout
from clustersim.program import Iteration, Wire, plan_iteration, with_codec
from clustersim.program.issue import NOT_ISSUED, IssueBuilder, PassIssue, issue_times
from clustersim.program.iteration import PlanIssue
from clustersim.scenario import Point, build_topology, compression_of, gpu_memory
from clustersim.scenario.compression import codec_of, wire_of
from clustersim.scenario.layout import issue_factor, layout_of, num_shards, work_of
from clustersim.scenario.offload_checks import held_in_hosts, memory_of_host
from clustersim.scenario.trained_model import trained_model
from clustersim.scenario.variability import share_of_slowest, slowest_of, told_of_slowest, variability_of
from clustersim.seeding import stream
from clustersim.software import load_host, load_software
from clustersim.spec import Spec
from clustersim.stragglers import constant_factors
from clustersim.strategies.collective_strategy import CollectiveStrategy
from clustersim.topology import Topology, place
from clustersim.topology.processes import Threads, with_processes
from clustersim.units import format_size

_MOST_WORKLOADS = 64


class Workloads:
    """A cache of workloads, which the points of a sweep share. It drops the oldest first."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Workload] = {}

    def get(self, key: Hashable, build: Callable[[], Workload]) -> Workload:
        """Return the workload of this key; build it the first time. The key is everything that it depends on."""
        if key not in self._known:
            self._known[key] = build()
            if len(self._known) > _MOST_WORKLOADS:
                del self._known[next(iter(self._known))]
        return self._known[key]

    def clear(self) -> None:
        """Drop all workloads."""
        self._known.clear()


class Setup:
    """Everything a point needs that does not change while it is simulated.

    Other points may share the `workloads`: the files they were read from must not have changed since. If several jobs
    share a cluster, `jobs_before` have chosen their GPUs already. Without `detail`, nothing is recorded that only
    figures of single ranks, layers and iterations need.
    """

    def __init__(
        self,
        point: Point,
        workloads: Workloads | None = None,
        jobs_before: Sequence[Setup] = (),
        detail: bool = True,
        numba_from_messages: int | None = None,
    ):
        self.point, self.detail = point, detail
        self.numba_from_messages = numba_from_messages  # of its networks (see `Network`)
        self.transport: Transport = transport_at(load_transport(point.transport), point.speeds)
        self.topology = _with_background_traffic(build_topology(point.topology), point.background_traffic)
        self.topology = _at_speeds(self.topology, point.speeds)
        into_bytes_per_s, from_bytes_per_s = self.transport.receiving_bytes_per_s, self.transport.sending_bytes_per_s
        if into_bytes_per_s is not None and from_bytes_per_s is not None:
            share = self.transport.efficiency  # payload as a share of a link's rate
            rates = into_bytes_per_s / share, from_bytes_per_s / share
            threads = Threads(self.transport.threads or 1, *rates, self.transport.half_rate_bytes)
            self.topology = with_processes(self.topology, threads)
        self.model, self.given_times = trained_model(point)
        self._workloads = Workloads() if workloads is None else workloads
        self._jobs_before = tuple(jobs_before)
        self._placed: dict[int, np.ndarray] = {}
        self._plans: dict[str, Iteration] = {}

    def on_first_gpus(self, point: Point) -> Setup:
        """Return the setup of another point of the same model, on the first GPUs of this one.

        Times from a file, which are for the batch that a GPU has here, are scaled to the batch that it has there.
        """
        given = self.given_times
        other = Setup(point, None if given else self._workloads, detail=False)
        other._placed[0] = self.gpus(0)[: point.num_gpus]
        share = point.global_batch / point.num_gpus * self.point.num_gpus / self.point.global_batch
        other.given_times = given and tuple(each and each.scaled(share) for each in given)
        return other

    def without_detail(self, num_replicates: int) -> Setup:
        """Return the same setup without `detail`, for at least so many replicates."""
        other = copy(self)
        other.detail = False
        if num_replicates > self.point.replicates:
            other.point = self.point.model_copy(update={"replicates": num_replicates})
            for known in ("kinds_in_use", "_slowest"):
                vars(other).pop(known, None)
        return other

    def seed(self, replicate: int) -> int:
        """Return the seed of a replicate: the scenario's for the first of the first job, else one derived from it."""
        if self._jobs_before:
            return int(stream(self._jobs_before[0].seed(replicate), "job", len(self._jobs_before)).integers(2**63))
        if not replicate:
            return self.point.seed
        return int(stream(self.point.seed, "replicate", replicate).integers(2**63))

    def gpus(self, replicate: int) -> np.ndarray:
        """Return the GPU number of each rank [num_ranks], out of those that earlier jobs leave free."""
        if replicate not in self._placed:
            first, point = (*self._jobs_before, self)[0], self.point
            taken = np.concatenate([np.zeros(0, dtype=np.int64), *(each.gpus(replicate) for each in self._jobs_before)])
            gpus = place(point.placement, self.topology, point.num_gpus, first.seed(replicate), taken)
            self._placed = {replicate: gpus}
        return self._placed[replicate]

    def kinds(self, gpus: np.ndarray) -> list[str]:
        """Return the sheet name of each GPU [num_ranks]."""
        names = [self.topology.gpu_sheets[gpu] for gpu in gpus]
        known = [name for name in names if name]
        if len(known) < len(names):
            raise InputError(
                f"the topology '{self.topology.name}' does not say which GPU it has, so there are no compute times; "
                "give topology.gpu (clustersim list gpus)",
                allowed="topology.gpu",
            )
        return known

    @cached_property
    def kinds_in_use(self) -> list[str]:
        """The GPU sheets of all replicates; that of rank 0 in the first replicate comes first."""
        every = (kind for replicate in range(self.point.replicates) for kind in self.kinds(self.gpus(replicate)))
        return list(dict.fromkeys(every))

    def workload(self, kind: str, batch: int | None = None, num_passes: int | None = None) -> Workload:
        """Return the work of an iteration on a GPU of this kind, at the point's batch per GPU if `batch` is None.

        An update follows the point's number of passes, or `num_passes`.
        """
        point, size = self.point, batch or self.point.per_gpu_batch
        passes = num_passes or point.parallelism.num_passes
        casts = casts_of(point.compute.casts, passes, point.precision, point.compute.wide_share, num_shards(point))
        asked = point.precision, point.gradient_precision, point.optimizer, point.compute, casts
        known = self.model, load_gpu(kind), size, self.given_times, passes
        key = (
            point.model,
            point.lora,
            point.packing,
            kind,
            size,
            issue_factor(point),
            point.transport,
            point.anchoring,
            point.speeds.of_compute,
            *asked,
        )
        return self._workloads.get(key, lambda: work_of(point, *known))

    @property
    def reference(self) -> Workload:
        """The work of the first rank, which the report shows by layer; that of a micro-batch if the model is split."""
        return self.workload(self.kinds_in_use[0], None if self.point.is_plain else self.point.micro_batch)

    @cached_property
    def laid_out(self) -> ModelLayout | None:
        """The parts and plans of all stages, if a copy of the model spans several GPUs; else None."""
        if self.point.is_plain:
            return None
        if len(self.kinds_in_use) > 1:
            kinds = ", ".join(self.kinds_in_use)
            raise InputError(f"a model is laid over GPUs of one kind (got {kinds})", got=kinds, key="parallelism")
        return layout_of(self.point, self.reference, self.given_times)

    @property
    def num_workers(self) -> int:
        """How many ranks exchange a gradient: all, or those that hold the same part of the model."""
        return self.point.num_gpus if self.laid_out is None else self.laid_out.num_replicas

    def slowest_of(self, kind: str) -> float:
        """Return the time of the slowest GPU of a kind that others wait for, divided by that of the mean GPU."""
        return self._slowest[kind]

    def shares_of_slowest(self, replicate: int) -> np.ndarray:
        """Return the share of `slowest_of` that each rank keeps with constant stragglers [num_ranks]."""
        gpus = self.gpus(replicate)
        hosts, kinds = self.topology.gpu_hosts[gpus], np.array(self.kinds(gpus))
        factors, shares = constant_factors(self.point.stragglers, hosts), np.ones(len(gpus))
        if (factors != 1).any():
            for kind in dict.fromkeys(kinds.tolist()):
                own = kinds == kind
                known = self.point, load_gpu(kind), self.given_times
                shares[own] = share_of_slowest(*known, factors[own], len(np.unique(hosts[own])))
        return shares

    @cached_property
    def _slowest(self) -> dict[str, float]:
        """`slowest_of` by kind, for as many GPUs as the first replicate with that kind has."""
        found: dict[str, float] = {}
        for replicate in range(self.point.replicates):
            gpus = self.gpus(replicate)
            kinds = np.array(self.kinds(gpus))
            for kind in dict.fromkeys(kinds.tolist()):
                own = gpus[kinds == kind]
                num_hosts = len(np.unique(self.topology.gpu_hosts[own]))
                if kind not in found:
                    known = self.point, load_gpu(kind), self.given_times
                    found[kind] = slowest_of(*known, len(own), num_hosts)
        return found

    def _kind_of(self, work: Workload) -> str:
        """Return the kind of the GPU that does this work, as the topology names it."""
        sheet = work.gpu.of_sheet or work.gpu
        return next(kind for kind in self.kinds_in_use if load_gpu(kind) == sheet)

    @property
    def compression(self) -> Compression:
        """The compression of gradients; none where no gradient is sent."""
        return compression_of(self.point, self.num_workers)

    @property
    def wire_bytes_per_parameter(self) -> float:
        """Bytes of a gradient on the wire, compressed where the scenario says so."""
        return self.compression.wire_bytes(self.reference.gradient_bytes_per_parameter)

    @cached_property
    def wire(self) -> Wire:
        """How compressed gradients are sent: their size, and whether they can be added."""
        plain = self.reference.gradient_bytes_per_parameter
        return wire_of(self.point, self.compression, plain, self.num_workers)

    @property
    def first_plan(self) -> Iteration:
        """The iteration of the first rank, at a slowdown of 1."""
        return self.plan_of(self.kinds_in_use[0]) if self.laid_out is None else self.laid_out.plans[0].iteration

    def plan_of(self, kind: str) -> Iteration:
        """Return the iteration of a rank with the whole model, on a GPU of this kind, at a slowdown of 1."""
        if kind not in self._plans:
            self._plans[kind] = self.plan(self.workload(kind))
        return self._plans[kind]

    def plan(self, workload: Workload, layer_slowdown: np.ndarray | None = None) -> Iteration:
        """Return the iteration of one rank, as slow as the slowest GPU that it waits for.

        `layer_slowdown` [num_layers] multiplies the times of each layer.
        """
        strategy, layers, factor = self.point.strategy, workload.layers, self.slowest_of(self._kind_of(workload))
        stretch = factor * (np.ones(len(layers)) if layer_slowdown is None else layer_slowdown)
        stretched = zip(layers, stretch.tolist(), strict=True)
        of_layers = [_gradients(layer, factor, strategy.by_tensor) for layer, factor in stretched]
        names, forward_s, backward_s, own = zip(*(row for rows in of_layers for row in rows), strict=True)
        shared = shared_weights([each.layer for each in layers]) if strategy.sends_shared_twice else {}
        shared = by_row(shared, [*map(len, of_layers)])
        parameters = [shared[row][1] if row in shared else number for row, number in enumerate(own)]
        plan = plan_iteration(
            names,
            forward_s,
            backward_s,
            [number * workload.gradient_bytes_per_parameter for number in parameters],
            self._update_s(workload.optimizer_s * factor),
            strategy.bucket_caps(workload.gradient_bytes_per_parameter, self.num_workers, sharding=None),
            strategy.overlap,
            {row: owner for row, (owner, _) in shared.items()},
            _plan_issue(workload, strategy.by_tensor, self._exchanges),
            workload.fixed_s * factor,
        )
        codec = codec_of(self.point, plan.buckets, workload, self.num_workers, self._host_bytes_per_s)
        return self._exchange_after_parents(with_codec(plan, codec))

    @property
    def _exchanges(self) -> bool:
        """Whether gradients are exchanged; one worker alone exchanges them with a server only."""
        return self.num_workers > 1 or not isinstance(self.point.strategy, CollectiveStrategy)

    def _exchange_after_parents(self, plan: Iteration) -> Iteration:
        """Return an iteration; if the strategy holds parents up, it begins its exchange a backward pass later."""
        if not self.point.strategy.blocks_parents or self.num_workers == 1:
            return plan
        return replace(
            plan, buckets=tuple(replace(each, copied_s=each.copied_s + plan.backward_s) for each in plan.buckets)
        )

    def _update_s(self, own_s: float) -> float:
        """Return the seconds of an update that takes a GPU `own_s`: at least the time its process needs to issue it.

        On a single GPU there is nothing to wait for before the update, so the process issues it ahead.
        """
        issue = self.point.optimizer.issue
        if issue is None or self.num_workers == 1:
            return own_s
        return max(own_s, issue.seconds(self._gpus_of_fullest_host) / self.point.speeds.factor(HOST))

    @cached_property
    def _gpus_of_fullest_host(self) -> int:
        return int(np.unique(self.topology.gpu_hosts[self.gpus(0)], return_counts=True)[1].max())

    @property
    def _host_bytes_per_s(self) -> float | None:
        """The copy rate of a core of the first rank's host, if messages are staged in host memory; else None."""
        if self.transport.buffers != "host":
            return None
        return self.topology.core_bytes_per_s(self.topology.memory[int(self.gpus(0)[0])])

    def memory_bytes(self, kind: str) -> dict[str, float]:
        """Return the bytes that a GPU of this kind holds, by purpose: the same on every kind."""
        return self._whole_memory if self.laid_out is None else self.laid_out.fullest

    @cached_property
    def _whole_memory(self) -> dict[str, float]:
        return gpu_memory(self.point, self.model)

    def memory_warnings(self) -> tuple[str, ...]:
        """Return a warning for each kind of GPU that lacks memory; raise InputError if the scenario checks memory."""
        warnings = []
        for kind in self.kinds_in_use:
            try:
                check_memory(self.memory_bytes(kind), load_gpu(kind))
            except InputError as error:
                if self.point.memory_check:
                    raise
                warnings.append(str(error))
        return tuple(warnings)

    def assumptions(self, link_kinds: Iterable[str]) -> tuple[str, ...]:
        """Return every assumption of the forecast as a sentence; `link_kinds` are those of the links that were used."""
        hosts = {self.topology.host_sheets[host] for host in self.topology.gpu_hosts[self.gpus(0)].tolist()}
        sheets: list[Sheet] = [*map(load_gpu, self.kinds_in_use), self.transport]
        sheets += map(load_cpu, sorted(filter(None, hosts)))
        sheets += [load_link(kind) for kind in link_kinds if kind in LINKS]
        assumed = [f"{sheet.title}: {key}, {reason}" for sheet in sheets for key, reason in sheet.assumed().items()]
        of_compute = [line for kind in self.kinds_in_use for line in self.workload(kind).assumptions]
        boards = [*filter(None, (other_boards(load_gpu(kind)) for kind in self.kinds_in_use))]
        own = [
            *self._software_assumptions(),
            *of_compute,
            *boards,
            *self._host_assumptions(),
            *self._variability_assumptions(),
            *self._scenario_assumptions(),
            *self.point.strategy.assumptions(),
        ]
        return tuple(dict.fromkeys([*own, *assumed]))

    def _software_assumptions(self) -> list[str]:
        """Return which program trains, as a sentence, and what its sheet assumes."""
        name = self.point.software.name
        if not name:
            return []
        sheet = load_software(name)
        why = " The scenario names none; this one follows from its layout." if self.point.is_software_chosen else ""
        assumed = [f"{sheet.title}: {key.removeprefix('values.')}, {why}" for key, why in sheet.assumed().items()]
        return [f"The software is {sheet.name} ({sheet.title}).{why}", *assumed]

    def _host_assumptions(self) -> list[str]:
        """Return how the hosts of the GPUs issue kernels, as a sentence."""
        if self.reference.host == NO_HOST:
            return []
        program, factor = load_host(self.point.compute.host), issue_factor(self.point)
        speed = "" if factor == 1 else f", in {factor:g} times the time of the sheet because of the host's CPU"
        return [
            f"A host issues the kernels of each GPU one after the other, as the host sheet {program.name} says "
            f"({program.title}){speed}."
        ]

    def _variability_assumptions(self) -> list[str]:
        """Return how much longer ranks compute because GPUs of one kind differ in speed."""
        sentences = []
        for kind in self.kinds_in_use:
            gpu, factor = load_gpu(kind), self.slowest_of(kind)
            if factor != 1:
                sentences.append(told_of_slowest(gpu, factor, variability_of(self.point, gpu, self.given_times)))
        return sentences

    def _scenario_assumptions(self) -> list[str]:
        """Return the assumptions that the scenario sets."""
        sentences = []
        if self.point.transport == "ideal":
            sentences.append("Messages have no overhead and adding gradients takes no time (transport ideal).")
        sentences += [f"Compute times vary as the scenario says: {_spec_text(spec)}." for spec in self.point.stragglers]
        if self.point.input is not None:
            sentences.append(f"Samples come as the scenario says: {_spec_text(self.point.input)}.")
        hosts = self.topology.gpu_hosts[self.gpus(0)]
        if self.laid_out is not None and (held := float(held_in_hosts(self.laid_out, hosts, 0).max())):
            has = memory_of_host(self.point)
            capacity = "unknown, and not checked" if has is None else format_size(has)
            sentences.append(f"Host memory holds {format_size(held)} of offloaded data; its capacity is {capacity}.")
        if self.compression.kind != "none":
            sentences.append(f"Gradients are compressed as the scenario says: {_spec_text(self.compression)}.")
        if self.point.failures is not None:
            failures = _spec_text(self.point.failures)
            sentences.append(f"GPUs and hosts fail and are replaced as the scenario says: {failures}.")
        if self.point.background_traffic:
            share = f"{self.point.background_traffic:.0%}"
            sentences.append(f"Other jobs take {share} of every link between switches (background_traffic).")
        if self.point.placement.kind != "block":
            sentences.append(f"GPUs are chosen as the scenario says: placement {_spec_text(self.point.placement)}.")
        return sentences


def alone_s(work: Workload) -> float:
    """Return the seconds of an iteration on one GPU that exchanges nothing, with the waits for its host."""
    if not _has_host(work):
        return work.fixed_s + work.compute_s
    builder = IssueBuilder()
    builder.add(work.fixed_s, PassIssue(work.fixed_s))
    for each in work.layers:
        builder.add(each.forward_s, each.forward_issue)
    for each in reversed(work.layers):
        builder.add(each.backward_s, each.backward_issue)
    issue, update = builder.build(), issue_times([(work.optimizer_s, work.host.update)])
    computed_s = issue.end_s(0.0, 0.0, builder.work_s, 1.0)
    return update.end_s(computed_s, issue.host_s, work.optimizer_s, 1.0)


def _has_host(work: Workload) -> bool:
    """Say whether a host issues the kernels of the work."""
    return work.host != NO_HOST or any(each.forward_issue.host_s for each in work.layers)


def _plan_issue(work: Workload, by_tensor: bool, exchanges: bool) -> PlanIssue | None:
    """Return what the host issues for the rows of `_gradients`; None where no host is simulated."""
    if not _has_host(work):
        return None
    rows = [len(_gradients(each, 1.0, by_tensor)) - 1 for each in work.layers]
    forward, backward = (
        [
            issue
            for each, num in zip(work.layers, rows, strict=True)
            for issue in (*(NOT_ISSUED,) * num, getattr(each, name))
        ]
        for name in ("forward_issue", "backward_issue")
    )
    return PlanIssue(forward, backward, work.host.exchange_s if exchanges else 0.0, work.host.update)


def _gradients(layer: LayerTime, factor: float, by_tensor: bool) -> list[tuple[str, float, float, int]]:
    """Return name, forward and backward seconds and number of parameters of each gradient of a layer, in forward order.

    The first tensor comes last, with the seconds: all are ready when the backward pass of the layer has ended.
    """
    name, seconds = layer.layer.name, (layer.forward_s * factor, layer.backward_s * factor)
    if not by_tensor:
        return [(name, *seconds, layer.layer.num_parameters)]
    first, *others = parameter_tensors(layer.layer) or (0,)
    further = [(f"{name}, tensor {number}", 0.0, 0.0, size) for number, size in enumerate(others, start=2)]
    return [*reversed(further), (name, *seconds, first)]


@lru_cache(maxsize=4)
def _with_background_traffic(topology: Topology, share: float) -> Topology:
    """Return the cluster; links between switches have the bandwidth that other jobs leave. The latest are cached."""
    if not share:
        return topology
    links, hosts = topology.links, topology.node_hosts
    between_switches = (hosts[links.src] < 0) & (hosts[links.dst] < 0)
    left = np.where(between_switches, 1 - share, 1.0)
    return replace(topology, links=replace(links, bytes_per_s=links.bytes_per_s * left))


@lru_cache(maxsize=4)
def _at_speeds(topology: Topology, speeds: Speeds) -> Topology:
    """Return the cluster with links and memories as fast as `speeds` say. The latest are cached."""
    return topology.at_speeds(speeds) if speeds.factors else topology


def _spec_text(spec: Spec) -> str:
    """Return a part of the scenario in one line, without keys at their defaults."""
    values = spec.model_dump(exclude_defaults=True, exclude={"kind"})
    return " ".join([str(getattr(spec, "kind", "")), *(f"{key} {value}" for key, value in values.items())]).strip()
