"""The features of a forecast, by which its class of checked forecasts is found."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from clustersim.hardware import LINKS, load_gpu, load_link
from clustersim.model import Model
from clustersim.model.layer import NO_HOST
from clustersim.results.features import ANCHORED, Features, compute_origin, hosts_kind, layout_kind
from clustersim.scenario import Point
from clustersim.simulate.setup import Setup
from clustersim.software import load_host

_WORK = {"convolution": "convolutions", "lstm": "recurrent"}
"""What a layer of an operation counts as; any other is a product of matrices."""


def features_of(setup: Setup, rank_names: tuple[str, ...]) -> Features:
    """Return the features of a point's forecast; `rank_names` are its GPUs, `host/gpu` or a name of their own."""
    point = setup.point
    layout = {} if point.is_plain else {"kind": point.parallelism.kind, **vars(point.grid)}
    reference, is_anchored = setup.reference, point.anchoring is not None
    return Features(
        architecture=load_gpu(setup.kinds_in_use[0]).architecture,
        precision=point.precision,
        program=program_of(point),
        strategy=point.strategy.kind,
        layout=layout_kind(layout, point.parallelism.sharding),
        origin=ANCHORED if is_anchored else compute_origin(reference.provenance(), reference.kernels),
        hosts=hosts_kind(len({name.rpartition("/")[0] or name for name in rank_names})),
        work=work_kind(setup.model),
    )


def program_of(point: Point) -> str:
    """Return the family of programs that a point's training is written in: the host sheet of its software."""
    return load_host(point.compute.host).name


def assumed_rates(setup: Setup, link_kinds: Iterable[str], is_estimated: bool) -> tuple[str, ...]:
    """Return the rates that a forecast rests on and that its sheets call assumed; `link_kinds` are the links in use.

    They are the rates of links and, where compute times are estimated, the peak in the precision, the memory's rate and
    the time in which a host issues a kernel.
    """
    return tuple(dict.fromkeys(_assumed_rates(setup, link_kinds, is_estimated)))


def _assumed_rates(setup: Setup, link_kinds: Iterable[str], is_estimated: bool) -> Iterator[str]:
    for kind in setup.kinds_in_use if is_estimated else ():
        gpu = load_gpu(kind)
        assumed = gpu.assumed()
        keys = (f"flop_per_s.{setup.point.precision}", "memory_bytes_per_s")
        yield from (f"{key} of {gpu.title}" for key in keys if key in assumed)
    if is_estimated and setup.reference.host != NO_HOST:
        host = load_host(setup.point.compute.host)
        if "kernel_s" in host.assumed():
            yield f"kernel_s of {host.title}"
    for kind in link_kinds:
        if kind in LINKS and "bytes_per_s" in (link := load_link(kind)).assumed():
            yield f"bytes_per_s of {link.title}"


def work_kind(model: Model) -> str:
    """Return what most of a model's FLOP are in: `convolutions`, `recurrent` layers or `products` of matrices."""
    flop: dict[str, float] = defaultdict(float)
    for layer in model.layers:
        flop[_WORK.get(layer.op, "products")] += layer.flop
    return max(flop, key=lambda kind: (flop[kind], kind))
