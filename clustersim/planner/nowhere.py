"""What is told where no layout can be: what is missing, and the nearest one that works."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from clustersim.errors import InputError
from clustersim.hardware.sheet import Gpu
from clustersim.planner.material import Material, point_of
from clustersim.planner.question import Question
from clustersim.planner.room import Rooms
from clustersim.planner.space import Choice
from clustersim.scenario import Point, build_topology
from clustersim.scenario.layout_checks import layout_mistakes
from clustersim.scenario.offload_checks import host_memory_mistakes, in_hosts_mistakes
from clustersim.simulate import Workloads
from clustersim.simulate.setup import Setup
from clustersim.units import format_size

_MOST_TIMES = 64
"""How many times as many GPUs are looked at."""


def nowhere_fits(question: Question, workloads: Workloads, gpu: Gpu, held: float, choice: Choice) -> InputError:
    """Return that no layout fits, `choice` holding the least; with the fewest GPUs on which one would."""
    missing = format_size(held - gpu.memory_bytes)
    has = format_size(gpu.memory_bytes)
    cluster = build_topology(question.point.topology).num_gpus
    nearest = _on_more_gpus(question, workloads, gpu, cluster)
    if nearest is None:
        hint = (
            f"none of up to {_MOST_TIMES} times as many GPUs would do; take GPUs with more memory, or a smaller model"
        )
    else:
        of_cluster = f" (the cluster has {cluster})" if nearest.num_gpus > cluster else ""
        hint = f"on {nearest.num_gpus} GPUs{of_cluster} it would fit with {nearest.text()}"
    return InputError(
        f"no layout fits: the one that holds least ({choice.text()}) needs {missing} more on each GPU, "
        f"{format_size(held)} where one {gpu.name} holds {has}; {_with_host(question, workloads, choice)}{hint}",
        key="parallelism",
        got=format_size(held),
        allowed=f"at most {has}",
    )


def _with_host(question: Question, workloads: Workloads, choice: Choice) -> str:
    """Return what of the layout has to lie in its hosts' memory for it to fit as it is; nothing where it never does.

    What layers keep goes there instead of being made again.
    """
    kept = question.fixed.get("recompute", "none")
    ways = {"offload": "optimizer"}, {"offload": "optimizer+activations", "recompute": kept}
    for way in ways:
        point = point_of(question.point, replace(choice, layout=choice.layout.model_copy(update=way)))
        if _fits(point, Setup(point, workloads)):
            more = "" if "offload" in question.also else ", as --also offload compares"
            return f"with {', '.join(f'{key}: {value}' for key, value in way.items())} that one fits{more}; "
    return ""


def _fits(point: Point, setup: Setup) -> bool:
    """Say whether a point that offloads something can be, and has room on its GPUs and their hosts."""
    gpus = setup.gpus(0)
    if layout_mistakes(point) or list(host_memory_mistakes(point, setup.topology, gpus)):
        return False
    try:
        setup.memory_warnings()
    except InputError:
        return False
    assert setup.laid_out is not None
    return not list(in_hosts_mistakes(point, setup.laid_out, setup.topology.gpu_hosts[gpus]))


def no_layout(question: Question, discarded: Mapping[str, int]) -> InputError:
    """Return that there is no layout at all, with what stands in the way of most."""
    why, num = max(discarded.items(), key=lambda item: item[1], default=("the degrees do not make so many GPUs", 0))
    given = ", ".join(f"{key} {value}" for key, value in question.fixed.items())
    beside = f" with {given}" if given else ""
    sizes = ", ".join(map(str, question.num_gpus))
    return InputError(
        f"there is no layout of {sizes} GPUs{beside}: {why} ({num} of them); change the batch, or fix less",
        key="parallelism",
        got=given or f"{sizes} GPUs",
        allowed="degrees whose product is the number of GPUs, and a batch that they divide",
    )


def in_short(error: InputError) -> str:
    """Return why a layout cannot be, the same words for all that cannot for the same cause."""
    first = error.mistakes[0]
    causes = {
        "pipeline": "more parts than the model can be cut into",
        "chunks": "more parts than the model can be cut into",
        "tensor": "layers do not divide over the GPUs",
        "expert": "experts do not divide over the GPUs",
        "context": "tokens do not divide over the GPUs",
        "stages": "the stages given are not those of the layout",
    }
    return causes.get(first.key or "", first.message)


def _on_more_gpus(question: Question, workloads: Workloads, gpu: Gpu, cluster: int) -> Choice | None:
    """Return a layout that fits on 2, 4, 8 ... times as many GPUs, which holds least in all that is not fixed.

    They may be more than the `cluster` has, or than the placement gives: groups beyond those are taken for others.
    """
    num_gpus = max(question.num_gpus)
    least = {"sharding": "zero-3", "recompute": "full", "schedule": "1f1b", "chunks": 1}
    times = 2
    while times <= _MOST_TIMES:
        batches = {num_gpus * times: question.batches[num_gpus]}
        fixed = {**least, **{key: value for key, value in question.fixed.items() if key != "data"}}
        rooms = _rooms(question, workloads, min(num_gpus * times, cluster))
        for (choice,) in question.space(batches, fixed).families({}):
            try:
                if rooms.fullest_bytes(choice) <= gpu.memory_bytes:
                    return choice
            except InputError:
                continue
        times *= 2
    return None


def _rooms(question: Question, workloads: Workloads, num_gpus: int) -> Rooms:
    """Return what layouts hold by their times on so many GPUs, on those asked about where these cannot be placed."""
    try:
        return Rooms(Material(question.point.model_copy(update={"num_gpus": num_gpus}), workloads))
    except InputError:
        return Rooms(Material(question.point, workloads))
