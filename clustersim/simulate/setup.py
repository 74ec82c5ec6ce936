"""Everything a point of a scenario needs before anything moves: cluster, devices, work, plan."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

import numpy as np

from clustersim.errors import InputError
from clustersim.hardware import LINKS, load_cpu, load_gpu, load_link, load_transport
from clustersim.hardware.sheet import Gpu, Sheet, Transport
from clustersim.program import Iteration, bucket_caps, plan_iteration
from clustersim.scenario import Point, build_topology
from clustersim.topology import place
from clustersim.workload import Workload, build_workload, check_memory, load_workload


class Setup:
    """Everything a point needs that does not change while it runs."""

    def __init__(self, point: Point):
        self.point = point
        self.topology = build_topology(point.topology)
        self.transport: Transport = load_transport(point.transport)
        self.model, self.given_times = load_workload(point.model)

    def gpus(self, seed: int) -> np.ndarray:
        """Return the GPU number of each rank [num_ranks]."""
        return place(self.point.placement, self.topology, self.point.num_gpus, seed)

    @cached_property
    def sheets(self) -> list[Gpu]:
        """The GPU sheet of each rank [num_ranks], as the first replicate places them."""
        names = [self.topology.gpu_sheets[gpu] for gpu in self.gpus(self.point.seed)]
        if None in names:
            raise InputError(
                f"the topology '{self.topology.name}' does not say which GPU it has, so there are no compute times; "
                "give topology.gpu (clustersim list gpus)",
                allowed="topology.gpu",
            )
        return [load_gpu(name) for name in names if name]

    def workload(self, gpu: Gpu, batch: int) -> Workload:
        """Return an iteration's work on a GPU of this kind."""
        point = self.point
        return build_workload(self.model, gpu, batch, point.precision, point.optimizer, point.compute, self.given_times)

    @cached_property
    def workloads(self) -> dict[str, Workload]:
        """The work by kind of GPU."""
        kinds = {gpu.name: gpu for gpu in self.sheets}
        return {name: self.workload(gpu, self.point.per_gpu_batch) for name, gpu in kinds.items()}

    @property
    def reference(self) -> Workload:
        """The first rank's work, which the report shows layer by layer."""
        return self.workloads[self.sheets[0].name]

    @property
    def one_gpu_batch(self) -> int:
        """The batch of the one GPU that the cluster is compared with: per GPU, or global where that is fixed."""
        return self.point.batch.global_ or self.point.per_gpu_batch

    @cached_property
    def one_gpu_samples_per_s(self) -> float:
        """What one GPU of the first rank's kind trains at that batch, without anybody to wait for."""
        return self.one_gpu_batch / self.workload(self.sheets[0], self.one_gpu_batch).compute_s

    def plan(self, workload: Workload, layer_slowdown: np.ndarray | None = None) -> Iteration:
        """Return the iteration of one rank; `layer_slowdown` [num_layers] stretches each layer."""
        strategy, layers = self.point.strategy, workload.layers
        stretch = np.ones(len(layers)) if layer_slowdown is None else layer_slowdown
        wire = min(workload.gradient_bytes_per_parameter, 2.0) if self.point.compression == "fp16" else None
        plan = plan_iteration(
            [layer.layer.name for layer in layers],
            [layer.forward_s * factor for layer, factor in zip(layers, stretch.tolist(), strict=True)],
            [layer.backward_s * factor for layer, factor in zip(layers, stretch.tolist(), strict=True)],
            [layer.layer.num_parameters * workload.gradient_bytes_per_parameter for layer in layers],
            workload.optimizer_s,
            bucket_caps(strategy.buckets),
            strategy.overlap,
        )
        if wire is None:
            return plan
        share = wire / workload.gradient_bytes_per_parameter
        return replace(plan, buckets=tuple(replace(b, num_bytes=b.num_bytes * share) for b in plan.buckets))

    def memory_warnings(self) -> tuple[str, ...]:
        """Refuse a plan that does not fit, or say so where the scenario lets it pass."""
        warnings = []
        for gpu in {sheet.name: sheet for sheet in self.sheets}.values():
            try:
                check_memory(self.workloads[gpu.name].memory_bytes, gpu)
            except InputError as error:
                if self.point.memory_check:
                    raise
                warnings.append(str(error))
        return tuple(warnings)

    def assumptions(self, link_kinds: Iterable[str]) -> tuple[str, ...]:
        """Return every guess that the forecast stands on, as a sentence; `link_kinds` are those that were used."""
        hosts = {self.topology.host_sheets[host] for host in self.topology.gpu_hosts[self.gpus(self.point.seed)]}
        sheets: list[Sheet] = [*self.sheets, self.transport, *(load_cpu(name) for name in sorted(filter(None, hosts)))]
        sheets += [load_link(kind) for kind in link_kinds if kind in LINKS]
        guesses = {
            f"{sheet.title}: {key}, {reason}": None for sheet in sheets for key, reason in sheet.assumed().items()
        }
        return (*dict.fromkeys(line for work in self.workloads.values() for line in work.assumptions), *guesses)
