"""Checks that need the cluster and the devices: the number of GPUs, their memory, their number formats, the jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from clustersim.errors import InputError, Mistake
from clustersim.hardware import load_gpu, load_transport
from clustersim.hardware.sheet import Gpu
from clustersim.kernels import memory_lack, memory_overflow, read_profile
from clustersim.kernels.measured_tables import chosen_kernels
from clustersim.kernels.programs.channels_last import refuse_layout
from clustersim.kernels.programs.huggingface import HUGGINGFACE_2021
from clustersim.model import LayerTime, Model, load_workload
from clustersim.model.precision import PRECISIONS, precision_on
from clustersim.reading.tree import Place
from clustersim.scenario.cluster import build_topology
from clustersim.scenario.expert_checks import token_route_mistakes
from clustersim.scenario.layout import layout_of, work_of
from clustersim.scenario.memory import memory_mistakes
from clustersim.scenario.offload_checks import (
    held_in_hosts,
    host_memory_mistakes,
    in_hosts_mistakes,
    jobs_in_hosts_mistakes,
)
from clustersim.scenario.point import JobOfMany, JobPoint, Point
from clustersim.scenario.remedies import least_change, smaller_batch, what_fits
from clustersim.scenario.straggler_checks import failure_mistakes, straggler_mistakes, trace_mistakes
from clustersim.scenario.trained_model import trained_model
from clustersim.stragglers import LinkStraggler
from clustersim.strategies import Servers
from clustersim.topology import Topology, place
from clustersim.topology.adapters import through_adapters


def check_point(point: Point, is_cluster_known: bool = True) -> list[Mistake]:
    """Return the mistakes of a valid `Point` that only its model, cluster and devices show, each with its key.

    If its cluster is not known, checks that need it are left out.
    """
    alone = [*_compute_mistakes(point), *(_cluster_mistakes(point) if is_cluster_known else ())]
    return [*alone, *_job_mistakes(point, are_placed=is_cluster_known and not alone)]


def unreadable_names(point: Point, is_cluster_known: bool = True) -> Iterator[Mistake]:
    """Yield what a point names and there is not: a model, a GPU, a profile; or a cluster that cannot be built."""
    yield from _unreadable(point)
    if is_cluster_known:
        wrong = list(_mistakes_of("topology", lambda: build_topology(point.topology)))
        yield from wrong


def _compute_mistakes(point: Point) -> Iterator[Mistake]:
    wrong = list(_unreadable(point))
    yield from wrong
    if not wrong:
        yield from _image_mistakes(point)
        yield from _token_mistakes(point)
    yield from trace_mistakes(point)


def _image_mistakes(point: Point) -> Iterator[Mistake]:
    """Yield that the memory layout of images has no effect, or that the library does not support it."""
    compute = point.compute
    if compute.profile is None:
        model, _ = trained_model(point)
        key = "compute.layout" if compute.layout else "compute.library"
        number, layout = PRECISIONS[point.precision], compute.layout or "nchw"
        yield from _mistakes_of(key, partial(refuse_layout, model, number, layout, compute.library))


def _token_mistakes(point: Point) -> Iterator[Mistake]:
    """Yield that a training is given in tokens, and the model has none."""
    scale = None if point.learning is None else point.learning.scale
    in_tokens = scale is not None and scale.unit == "tokens"
    if (point.train_tokens is None and not in_tokens) or trained_model(point)[0].tokens:
        return
    model, _ = trained_model(point)
    if in_tokens:
        message = f"{model.name} has no tokens (got unit: tokens); give noise scale and batch in samples"
        yield Mistake(message, key="learning.scale.unit", got="tokens", allowed="samples")
    if point.train_tokens is not None:
        message = f"{model.name} has no tokens; the length of its training is dataset_size (samples) and epochs"
        got, allowed = f"{point.train_tokens:g}", "a model whose workload states tokens, or dataset_size and epochs"
        yield Mistake(message, key="train_tokens", got=got, allowed=allowed)


def _unreadable(point: Point) -> Iterator[Mistake]:
    """Yield why the model or the source of its times cannot be read; later checks need both."""
    wrong = list(_mistakes_of("model", partial(load_workload, point.model)))
    yield from wrong or _untrainable(point)
    rate, profile = point.compute.single_gpu, point.compute.profile
    if rate is not None and rate.gpu is not None:
        yield from _mistakes_of("compute.single_gpu.gpu", partial(load_gpu, rate.gpu))
    if profile is not None:
        yield from _mistakes_of("compute.profile", partial(read_profile, profile))


def _untrainable(point: Point) -> Iterator[Mistake]:
    """Yield why the model cannot be trained as the scenario asks: nothing in it has the adapters of `lora`."""
    try:
        trained_model(point)
    except InputError as error:
        yield from (Place().located(each, each.key or "model") for each in error.mistakes)


def _cluster_mistakes(point: Point) -> Iterator[Mistake]:
    wrong = list(_mistakes_of("topology", lambda: build_topology(point.topology)))
    if wrong:
        yield from wrong
        return
    topology = build_topology(point.topology)
    if point.num_gpus > topology.num_gpus:
        message = f"the cluster '{topology.name}' has {topology.num_gpus} GPUs (got {point.num_gpus})"
        if topology.torus_dims is not None:
            routers = " x ".join(map(str, topology.torus_dims))
            message += f": its {routers} routers have {topology.num_hosts} hosts; take fewer GPUs, or larger dims"
        yield Mistake(message, "num_gpus", got=str(point.num_gpus), allowed=f"at most {topology.num_gpus}")
        return
    try:
        gpus = place(point.placement, topology, point.num_gpus, point.seed)
    except InputError as error:
        yield from (Place().located(mistake, "placement") for mistake in error.mistakes)
        return
    yield from _placed_mistakes(point, topology, gpus)
    yield from failure_mistakes(point, topology, gpus)


def _placed_mistakes(point: Point, topology: Topology, gpus: np.ndarray) -> Iterator[Mistake]:
    """Yield what is wrong with a job on these GPUs [num_ranks] of a cluster."""
    yield from _gpu_mistakes(point, topology, gpus)
    yield from host_memory_mistakes(point, topology, gpus)
    yield from straggler_mistakes(point, topology, gpus)
    yield from _channel_mistakes(point, topology, gpus)
    yield from _adapter_mistakes(point, topology)
    yield from _process_mistakes(point)
    for mistake in point.strategy.placed_mistakes(topology, gpus, point.transport):
        yield replace(mistake, key=f"strategy.{mistake.key}")


def _channel_mistakes(point: Point, topology: Topology, gpus: np.ndarray) -> Iterator[Mistake]:
    """Yield that the channels of a transport would occupy every multiprocessor of a GPU."""
    held = load_transport(point.transport).channels or 0
    for name in dict.fromkeys(topology.gpu_sheets[gpu] for gpu in gpus.tolist()):
        if name is not None and held >= (most := load_gpu(name).num_multiprocessors):
            message = (
                f"collectives occupy {held} multiprocessors (channels), and {name} has {most}: none is left for compute"
            )
            yield Mistake(message, "transport", got=str(held), allowed=f"channels below {most}")


def _adapter_mistakes(point: Point, topology: Topology) -> Iterator[Mistake]:
    """Yield that a transport sends messages within a host through adapters, and the cluster has none."""
    if load_transport(point.transport).in_host == "adapter":
        try:
            through_adapters(topology)
        except InputError as error:
            yield from error.mistakes


def _process_mistakes(point: Point) -> Iterator[Mistake]:
    """Yield that a transport limits the rate of a process's threads, and the strategy has no such processes."""
    if load_transport(point.transport).receiving_bytes_per_s is not None and not point.strategy.has_processes:
        message = (
            f"the transport {point.transport} limits the rate of receiving threads, which is simulated only with "
            f"parameter servers in host memory (got strategy {point.strategy.kind}); take strategy server, or another "
            "transport"
        )
        yield Mistake(message, "strategy", got=point.strategy.kind, allowed="server")


def _job_mistakes(point: Point, are_placed: bool) -> Iterator[Mistake]:
    """Yield what is wrong with the jobs of a cluster; keys are those of the scenario."""
    jobs = point.each_job()
    for number, (_, job, _) in enumerate(jobs):
        if job is not point:
            found = [*_compute_mistakes(job), *_link_mistakes(job, jobs[0].point)]
            yield from (_of_job(each, f"jobs.{number}") for each in found)
    if are_placed:
        yield from _placement_mistakes(point, jobs)


def _of_job(mistake: Mistake, job: str) -> Mistake:
    """Return a mistake of a job with the key of the scenario; a mistake in another file keeps its own key."""
    if mistake.line is not None:
        return replace(mistake, named_by=f"{job}.{mistake.named_by}")
    return replace(mistake, key=f"{job}.{mistake.key}")


def _placement_mistakes(point: Point, jobs: Sequence[JobOfMany]) -> Iterator[Mistake]:
    """Yield why a job cannot be placed (for the first such job), or cannot run on the GPUs it gets."""
    topology, taken = build_topology(point.topology), np.zeros(0, dtype=np.int64)
    held, is_right = np.zeros(topology.num_hosts), True
    for number, (name, job, _) in enumerate(jobs):
        key = "jobs" if job is point else f"jobs.{number}"
        try:
            gpus = place(job.placement, topology, job.num_gpus, point.seed, taken)
        except InputError as error:
            for each in error.mistakes:
                about = key if job is point else f"{key}.{each.key or 'placement'}"
                yield replace(each, message=f"{name}: {each.message}", key=about)
            return
        taken = np.concatenate([taken, gpus])
        for mistake in _placed_mistakes(job, topology, gpus) if number or job is not point else ():
            is_right = False
            yield replace(mistake, key=key) if job is point else _of_job(mistake, key)
        if is_right and job.parallelism.offload != "none":
            held += _held_in_hosts(job, topology, gpus)
    if is_right and len(jobs) > 1:
        yield from jobs_in_hosts_mistakes(point, held)
    yield from _server_mistakes(jobs, topology, topology.num_hosts - len(np.unique(topology.gpu_hosts[taken])))


def _held_in_hosts(job: Point, topology: Topology, gpus: np.ndarray) -> np.ndarray:
    """Return the bytes that a job on these GPUs [num_ranks] offloads to each host [num_hosts].

    Zero for a job whose model cannot be read, which is reported elsewhere.
    """
    if list(_mistakes_of("model", partial(trained_model, job))):
        return np.zeros(topology.num_hosts)
    model, given_times = trained_model(job)
    gpu = load_gpu(str(topology.gpu_sheets[int(gpus[0])]))
    laid_out = layout_of(job, work_of(job, model, gpu, job.micro_batch, given_times), given_times)
    return held_in_hosts(laid_out, topology.gpu_hosts[gpus], topology.num_hosts)


def _server_mistakes(jobs: Sequence[JobOfMany], topology: Topology, num_free: int) -> Iterator[Mistake]:
    """Yield the first job whose parameter servers need more hosts of their own than the jobs leave free."""
    for number, (_, job, _) in enumerate(jobs):
        wanted = getattr(job.strategy, "servers", None)
        if not isinstance(wanted, Servers) or wanted.on != "own-hosts":
            continue
        if wanted.num > num_free:
            message = (
                f"{wanted.num} servers on own hosts need as many hosts without workers, and the cluster "
                f"'{topology.name}' of {topology.num_hosts} hosts has {num_free} left; take fewer servers or GPUs, "
                "more hosts, or servers on: workers"
            )
            key = "strategy.servers.num" if "num" in wanted.model_fields_set else "strategy.servers.on"
            mistake = Mistake(message, key, got=f"{wanted.num} servers", allowed=f"at most {num_free}")
            yield _of_job(mistake, f"jobs.{number}") if isinstance(job, JobPoint) else mistake
            return
        num_free -= wanted.num


def _link_mistakes(job: Point, first: Point) -> Iterator[Mistake]:
    """Yield that a job has link stragglers which differ from those of the first job."""
    own, firsts = ([each for each in point.stragglers if isinstance(each, LinkStraggler)] for point in (job, first))
    if own and own != firsts:
        message = "all jobs share the links, so only the scenario or its first job can have stragglers on links"
        yield Mistake(message, "stragglers", got=own[0].kind, allowed="stragglers of GPUs and hosts")


def _gpu_mistakes(point: Point, topology: Topology, gpus: np.ndarray) -> Iterator[Mistake]:
    names = dict.fromkeys(topology.gpu_sheets[gpu] for gpu in gpus.tolist())
    if None in names:
        message = "the cluster does not name its GPU; give topology.gpu (`clustersim list` shows the known ones)"
        yield Mistake(message, "topology", allowed="gpu, in the topology or its host")
    known = [load_gpu(name) for name in names if name is not None]
    wrong = [each for gpu in known for each in _mistakes_of("precision", partial(precision_on, gpu, point.precision))]
    if not wrong:
        number, kernels = PRECISIONS[point.precision], point.compute.kernels
        wrong = [
            each
            for gpu in known
            for each in _mistakes_of("compute.kernels", partial(chosen_kernels, kernels, gpu, number))
        ]
    yield from wrong
    if not wrong and None not in names and not list(_unreadable(point)):
        yield from _fit_mistakes(point, known, topology.gpu_hosts[gpus], topology.gpu_domains[gpus])


def _kernel_mistakes(
    point: Point, model: Model, gpus: Sequence[Gpu], given_times: Sequence[LayerTime | None] | None
) -> Iterator[Mistake]:
    """Yield that the kernels which `compute` asks for are not known for this model."""
    compute = point.compute
    asked = (compute.embedding, compute.head, compute.attention)
    if asked == ("lookup", "as-others", None) and compute.library != HUGGINGFACE_2021:
        return
    try:
        for gpu in gpus:
            work_of(point, model, gpu, point.per_gpu_batch, given_times)
    except InputError as error:
        yield from (Place().located(each, each.key or "compute") for each in error.mistakes)


def _fit_mistakes(point: Point, gpus: Sequence[Gpu], hosts: np.ndarray, domains: np.ndarray) -> Iterator[Mistake]:
    """Yield that a model cannot be split over GPUs of these kinds as the scenario asks, or does not fit into one.

    `hosts` [num_ranks] is the host of each rank, to whose memory it offloads, and `domains` its NVLink domain.
    """
    model, given_times = trained_model(point)
    if point.is_plain:
        yield from _kernel_mistakes(point, model, gpus, given_times)
        for mistake in memory_mistakes(point, model, gpus):
            remedy = least_change(point, model, given_times, gpus[0]) if len(gpus) == 1 else None
            if remedy is not None and remedy.held_bytes <= gpus[0].memory_bytes:
                yield replace(mistake, message=f"{mistake.message}; {remedy.text()}", remedy=str(remedy))
            else:
                smallest = min(gpus, key=lambda gpu: gpu.memory_bytes)
                yield replace(mistake, remedy=smaller_batch(point, model, given_times, smallest))
        return
    if len(gpus) > 1:
        kinds = ", ".join(gpu.name for gpu in gpus)
        yield Mistake(f"a model is split over GPUs of one kind only (got {kinds})", "parallelism", got=kinds)
        return
    try:
        whole = work_of(point, model, gpus[0], point.micro_batch, given_times)
        laid_out = layout_of(point, whole, given_times)
    except InputError as error:
        keys = type(point.parallelism).model_fields
        yield from (
            replace(each, key=f"parallelism.{each.key}")
            if each.key in keys
            else Place().located(each, each.key or "model")
            for each in error.mistakes
        )
        return
    yield from in_hosts_mistakes(point, laid_out, hosts)
    yield from token_route_mistakes(laid_out, domains)
    held = laid_out.fullest
    overflow = memory_overflow(held, gpus[0]) if point.memory_check else None
    if overflow is not None:
        remedy = least_change(point, model, given_times, gpus[0])
        message = "; ".join(filter(None, (overflow, what_fits(point, remedy, gpus[0]))))
        fits = remedy is not None and remedy.held_bytes <= gpus[0].memory_bytes
        change = str(remedy) if fits else smaller_batch(point, model, given_times, gpus[0])
        yield memory_lack(message, "parallelism", sum(held.values()), gpus[0].memory_bytes, change)


def _mistakes_of(key: str, call: Callable[[], object]) -> Iterator[Mistake]:
    """Yield the mistakes that a call raises, at `key` unless they have a line in another file."""
    try:
        call()
    except InputError as error:
        for mistake in error.mistakes:
            yield Place().located(mistake, key)
