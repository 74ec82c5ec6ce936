"""Why a layout is behind the best one: which part of its time is longer, and what makes it so."""

from __future__ import annotations

from collections.abc import Sequence

from clustersim.planner.links import LeastTimes
from clustersim.planner.search import Played
from clustersim.planner.space import Choice

_PARTS = ("compute", "bubble", "communication", "waiting")
_LEAST = 0.005
"""The least share of the best one's time that is worth a word."""


def reason(played: Played, best: Played, links: LeastTimes, best_links: LeastTimes) -> str:
    """Return why a layout loses against the best one, the greatest part first; empty of the best itself.

    A part's share is by how much it is longer, for each sample and GPU, of the best one's whole time.
    """
    if played is best:
        return ""
    scale = _gpu_s(best, best.iteration_s)
    longer = {
        name: (_gpu_s(played, _part_s(played, name)) - _gpu_s(best, _part_s(best, name))) / scale for name in _PARTS
    }
    told = []
    for name, share in sorted(longer.items(), key=lambda item: -item[1]):
        if share >= _LEAST:
            cause = _cause(name, played.choice, best.choice, links, best_links)
            told.append(f"{cause}: {name} +{share:.1%}" if cause else f"{name} +{share:.1%}")
    return "; ".join(told) or "as good, to half a per cent"


def _part_s(played: Played, name: str) -> float:
    return played.communication_s if name == "communication" else played.breakdown_s[name]


def _gpu_s(played: Played, seconds: float) -> float:
    """Return seconds of an iteration as those of all GPUs for each sample."""
    return seconds * played.choice.num_gpus / played.choice.batch


def _cause(name: str, choice: Choice, best: Choice, links: LeastTimes, best_links: LeastTimes) -> str:
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
        causes.append(f"smaller micro-batches ({choice.micro_batch} for {best.micro_batch})")
    if choice.grid.tensor > best.grid.tensor:
        causes.append(f"smaller kernels (tensor {choice.grid.tensor})")
    if choice.grid.context > best.grid.context:
        causes.append(f"fewer tokens a kernel (context {choice.grid.context})")
    if best.layout.sharding and not choice.layout.sharding:
        causes.append("each copy updates all weights")
    return causes


def _idles(choice: Choice, best: Choice) -> Sequence[str]:
    causes = []
    if choice.grid.pipeline > best.grid.pipeline:
        causes.append(f"{choice.grid.pipeline} stages")
    if choice.layout.micro_batches < best.layout.micro_batches:
        causes.append(f"{choice.layout.micro_batches} micro-batches")
    if choice.layout.chunks < best.layout.chunks:
        causes.append(f"{choice.layout.chunks} chunk a stage" if choice.layout.chunks == 1 else "fewer chunks")
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
        causes.append(f"tokens travel to experts on {choice.grid.expert} GPUs")
    if choice.grid.context > best.grid.context:
        causes.append(f"keys and values of {choice.grid.context} GPUs")
    if choice.grid.data > best.grid.data:
        causes.append(f"gradients of {choice.grid.data} copies")
    return ", ".join(causes)


def _crosses(choice: Choice, links: LeastTimes) -> bool:
    return choice.grid.tensor > 1 and links.crosses_hosts(tuple(range(choice.grid.tensor)))
