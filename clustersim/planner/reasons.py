"""Why a layout is slower than the best one: the longer parts of its time, and their causes."""

from __future__ import annotations

from collections.abc import Sequence

from clustersim.planner.links import MinTimes
from clustersim.planner.search import SimulatedLayout
from clustersim.planner.space import Choice

_PARTS = ("compute", "bubble", "communication", "waiting")
_LEAST = 0.005
"""Minimum share of the best layout's time that is reported."""


def reason(simulated: SimulatedLayout, best: SimulatedLayout, links: MinTimes, best_links: MinTimes) -> str:
    """Return why a layout is slower than the best one, the largest part first; empty for the best itself.

    The share of a part is its additional GPU time per sample, relative to the total of the best layout.
    """
    if simulated is best:
        return ""
    scale = _gpu_s(best, best.iteration_s)
    longer = {
        name: (_gpu_s(simulated, _part_s(simulated, name)) - _gpu_s(best, _part_s(best, name))) / scale
        for name in _PARTS
    }
    reasons = []
    for name, share in sorted(longer.items(), key=lambda item: -item[1]):
        if share >= _LEAST:
            cause = _cause(name, simulated.choice, best.choice, links, best_links)
            reasons.append(f"{cause}: {name} +{share:.1%}" if cause else f"{name} +{share:.1%}")
    if not reasons:
        is_quicker = _gpu_s(simulated, simulated.iteration_s) < (1 - _LEAST) * scale
        return "quicker as planned, slower as run" if is_quicker else "equal within 0.5 %"
    return "; ".join(reasons)


def _part_s(simulated: SimulatedLayout, name: str) -> float:
    return simulated.communication_s if name == "communication" else simulated.breakdown_s[name]


def _gpu_s(simulated: SimulatedLayout, seconds: float) -> float:
    """Return seconds of an iteration as GPU seconds per sample."""
    return seconds * simulated.choice.num_gpus / simulated.choice.batch


def _cause(name: str, choice: Choice, best: Choice, links: MinTimes, best_links: MinTimes) -> str:
    causes = {"compute": _computes, "bubble": _idles, "communication": _communicates}
    if name not in causes:
        return ""
    if name == "communication":
        return _communicates(choice, best, _crosses(choice, links), _crosses(best, best_links))
    return ", ".join(_computes(choice, best) if name == "compute" else _idles(choice, best))


def _computes(choice: Choice, best: Choice) -> Sequence[str]:
    causes = []
    if choice.layout.recompute != best.layout.recompute and choice.layout.recompute != "none":
        causes.append(f"recomputes activations ({choice.layout.recompute})")
    if choice.micro_batch < best.micro_batch:
        causes.append(f"smaller micro-batches ({choice.micro_batch} instead of {best.micro_batch})")
    if choice.grid.tensor > best.grid.tensor:
        causes.append(f"smaller kernels (tensor {choice.grid.tensor})")
    if choice.grid.context > best.grid.context:
        causes.append(f"fewer tokens per kernel (context {choice.grid.context})")
    if best.layout.sharding and not choice.layout.sharding:
        causes.append("each replica updates all weights")
    return causes


def _idles(choice: Choice, best: Choice) -> Sequence[str]:
    causes = []
    if choice.grid.pipeline > best.grid.pipeline:
        causes.append(f"{choice.grid.pipeline} stages")
    if choice.layout.micro_batches < best.layout.micro_batches:
        causes.append(f"{choice.layout.micro_batches} micro-batches")
    if choice.layout.chunks < best.layout.chunks:
        causes.append(f"{choice.layout.chunks} chunk per stage" if choice.layout.chunks == 1 else "fewer chunks")
    return causes


def _communicates(choice: Choice, best: Choice, crosses: bool, best_crosses: bool) -> str:
    causes = []
    if crosses and not best_crosses:
        causes.append("tensor collectives cross hosts")
    elif choice.grid.tensor > best.grid.tensor:
        causes.append(f"layers split over {choice.grid.tensor} GPUs")
    if choice.layout.sharding != best.layout.sharding:
        causes.append(choice.layout.sharding or "whole gradients are exchanged")
    if choice.grid.expert > best.grid.expert:
        causes.append(f"tokens sent to experts on {choice.grid.expert} GPUs")
    if choice.grid.context > best.grid.context:
        causes.append(f"keys and values of {choice.grid.context} GPUs")
    if choice.grid.data > best.grid.data:
        causes.append(f"gradients of {choice.grid.data} replicas")
    return ", ".join(causes)


def _crosses(choice: Choice, links: MinTimes) -> bool:
    return choice.grid.tensor > 1 and links.crosses_hosts(tuple(range(choice.grid.tensor)))
