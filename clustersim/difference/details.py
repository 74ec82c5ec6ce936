"""What one part of a run's iteration consists of: seconds by layer, by collective, or by the rank that is awaited."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from clustersim.report.marks import MICRO_BATCH
from clustersim.results import NO_RANK, Run

OTHER_COMPUTE = "compute beside the layers"
"""Compute that is in no row of the layers: slow ranks, layers that are split over GPUs, gradients that are added."""

INSIDE_PASSES = "inside the passes"
"""Communication that a layer or a pass waits for inside itself, as with tensor parallelism."""

NO_SINGLE_RANK = "no single rank"
"""Waiting for the slowest of GPUs of one kind, which all differ a little, and inside a copy of the model."""

UPDATE, RECOMPUTED = "optimizer update", "recomputed layers"

_COMPUTING = ("forward", "backward", "weights", "recompute", "update")
"""Kinds of spans in which a GPU computes."""

_NUMBERS = re.compile(r"\d+")


@dataclass(frozen=True)
class Detail:
    """Seconds of an iteration with one cause: `names` are the layers, collectives or ranks that it sums.

    `kind` is what they are, where their names do not say it.
    """

    names: tuple[str, ...]
    seconds: float
    kind: str = ""


Details = Mapping[str, Detail]
"""Details of one part by what is alike in two runs: a name without its numbers, or a kind of layer."""


def rest_of(part: str) -> str:
    """Return what the seconds of a part are called that no detail explains."""
    return {"compute": OTHER_COMPUTE, "communication_exposed": INSIDE_PASSES, "waiting": NO_SINGLE_RANK}.get(part, "")


def layer_details(run: Run, by_kind: bool = False) -> Details | None:
    """Return the compute of a GPU by layers whose names differ in numbers alone, or by kind of layer.

    Each GPU has its share of the copy of the model that it holds a part of. Beside the layers stand the update of the
    optimizer and recomputed layers, of which spans have the seconds. None where the run was saved without layers.
    """
    if not run.layers:
        return None
    share = 1.0 / _gpus_of_a_copy(run)
    found: Parts = defaultdict(list)
    for name, op, forward_s, backward_s, _, _ in run.layers:
        found[op if by_kind else f"{_NUMBERS.sub('*', name)} {op}"].append((name, share * (forward_s + backward_s)))
    layers = {key: replace(each, kind=key if by_kind else "") for key, each in _summed(found).items()}
    others = {UPDATE: "update", RECOMPUTED: "recompute"}
    seconds = {name: _share_of_spans(run) * _spent_s(run, kind) for name, kind in others.items()}
    free_s = max(0.0, run.breakdown_s.get("compute", 0.0) - sum(each.seconds for each in layers.values()))
    if sum(seconds.values()) > free_s:
        seconds = {name: free_s * spent_s / sum(seconds.values()) for name, spent_s in seconds.items()}
    return layers | {name: Detail((name,), spent_s) for name, spent_s in seconds.items() if spent_s > 0}


def collective_details(run: Run) -> Details | None:
    """Return exposed communication by message, collective or bucket of gradients.

    Spans are those of one iteration: they are scaled to the mean of all, but never up where part of the communication
    is inside the passes, as it is where ranks share a copy of the model. None where the run was saved without spans.
    """
    if not len(run.spans):
        return None
    found: Parts = defaultdict(list)
    for name, seconds in _spans(run, "exposed"):
        found[_NUMBERS.sub("*", name)].append((name, seconds))
    total = _total(found)
    exposed = run.breakdown_s.get("communication_exposed", 0.0)
    return _summed(found, exposed / total if total > exposed or (total and not run.layout) else 1.0)


def waiting_details(run: Run) -> Details | None:
    """Return waiting by the rank that a rank waited for longest in an iteration; None without saved iterations."""
    if not len(run.cycles):
        return None
    found: Parts = defaultdict(list)
    for rank, seconds in zip(run.cycles.awaited_rank, run.cycles.waiting_s, strict=True):
        if rank != NO_RANK and seconds > 0:
            found[f"rank {rank}"].append((f"rank {rank}", seconds))
    waiting = run.breakdown_s.get("waiting", 0.0)
    total = _total(found)
    return _summed(found, min(1.0 / len(run.cycles), waiting / total if total else 1.0))


DETAILS: dict[str, Callable[[Run], Details | None]] = {
    "compute": layer_details,
    "communication_exposed": collective_details,
    "waiting": waiting_details,
}
"""What gives the details of a part."""

Parts = dict[str, list[tuple[str, float]]]
"""Names with their seconds, by what is alike."""


def _gpus_of_a_copy(run: Run) -> int:
    """Return over how many GPUs one copy of the model is laid."""
    number = 1
    for axis in ("tensor", "context", "pipeline"):
        number *= int(run.layout.get(axis) or 1)
    return number


def _spans(run: Run, kind: str) -> Iterator[tuple[str, float]]:
    """Yield name and seconds of the spans of a kind, as the mean over the ranks that have spans."""
    ranks = len(set(run.spans.rank)) * len(set(run.spans.iteration))
    for found, _, _, start_s, end_s, name, _ in run.spans.rows():
        if found == kind:
            yield name.partition(MICRO_BATCH)[0], (end_s - start_s) / ranks


def _spent_s(run: Run, *kinds: str) -> float:
    """Return the seconds of the spans of some kinds, as the mean over the ranks that have spans."""
    return sum(seconds for kind in kinds for _, seconds in _spans(run, kind))


def _share_of_spans(run: Run) -> float:
    """Return the share of the spans of compute that is compute: the rest is in them, too.

    That is waiting inside the passes, kernels that collectives slow, and what the slowest rank, whose spans they may
    be, takes more than the mean.
    """
    inside_s = max(0.0, run.breakdown_s.get("communication_exposed", 0.0) - _spent_s(run, "exposed"))
    spent_s = _spent_s(run, *_COMPUTING) - inside_s
    return min(1.0, run.breakdown_s.get("compute", 0.0) / spent_s) if spent_s > 0 else 1.0


def _total(found: Parts) -> float:
    return sum(seconds for parts in found.values() for _, seconds in parts)


def _summed(found: Parts, scale: float = 1.0) -> dict[str, Detail]:
    return {
        key: Detail(tuple(dict.fromkeys(name for name, _ in parts)), scale * sum(seconds for _, seconds in parts))
        for key, parts in found.items()
    }
