"""A `clustersim.profile/1` from traces, with the catalogue's layer names if a model is given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from clustersim.errors import InputError, Mistake
from clustersim.interchange.kineto.layers import PHASES, Attributed, TracedLayer, attribute
from clustersim.interchange.kineto.notes import time_notes
from clustersim.interchange.kineto.trace import Event, Trace, read_traces
from clustersim.model import load_model

_PRECISIONS = {"float": "fp32", "c10::BFloat16": "amp-bf16", "c10::Half": "amp-fp16"}
_FIRST = ("convolution", "fully-connected", "embedding")  # layers whose input has the batch size
_GEMM_OPS = ("convolution", "fully-connected", "matmul", "lstm", "attention")  # layers whose input autocast casts
_AMPERE = 8  # the lowest compute capability with TF32
_MOST_OF_GRAPHS = 0.05  # of the time of kernels: beyond, a profile would lack its layers


@dataclass(frozen=True)
class ImportedProfile:
    """A profile and notes on it, as sentences."""

    document: dict[str, Any]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Rank:
    """The file of a rank and the layers found in it."""

    file: str
    found: Attributed


def import_kineto(
    paths: str | Path | Sequence[str | Path],
    model: str | None = None,
    batch: int | None = None,
    precision: str | None = None,
    layout: str | None = None,
    device: str | None = None,
) -> ImportedProfile:
    """Return the layer profile of torch.profiler traces: a file, one for each rank that computes the same, or a folder.

    Batch, precision and layout are read from the operators' shapes, types and strides (record_shapes=True) if
    they are not given. With a `model` of the catalogue, layers take its names, kind by kind in order of
    their first call, where a kind has the same number of members in both. Times are medians over the profiled steps,
    and of these over the ranks.
    """
    traces = (trace for path in _files(paths) for trace in read_traces(path))
    trace = next(traces, None)
    if trace is None:
        raise InputError(f"there is no trace in {paths}", got=str(paths), allowed="a file of one rank")
    found = _attributed(trace)
    ranks = [_Rank(trace.file, found)]
    ranks += [_Rank(other.file, _attributed(other).without_events()) for other in traces]
    _check_alike(ranks)
    first = _first_operator(found)
    where: dict[str, Any] = {
        "batch": batch or _batch(trace, first),
        "precision": precision or _precision(trace, found, first),
        "layout": layout or _layout(first),
    }
    notes = [_heading(ranks)]
    names = {name: name for name in found.layers}
    if model is not None:
        names, note = _catalogue_names(found, model)
        notes.append(note)
    rows = [_row(names[name], name, ranks, where) for name in found.layers]
    notes += _warnings(trace, found, rows)
    if precision is None:
        notes += _precision_warnings(trace, found, where["precision"])
    name = device or trace.device or "CPU"
    return ImportedProfile(_document(ranks, rows, where, name, model), tuple(notes))


def _files(paths: str | Path | Sequence[str | Path]) -> Iterator[Path]:
    """Yield the files of traces, those of a folder in the order of their names."""
    for path in map(Path, [paths] if isinstance(paths, str | Path) else paths):
        yield from sorted(path.glob("*.json")) + sorted(path.glob("*.json.gz")) if path.is_dir() else [path]


def _attributed(trace: Trace) -> Attributed:
    """Return the layers of a trace; refuse one without them."""
    found = attribute(trace)
    work_s = sum(work.duration_us for work in trace.work) / 1e6 / found.num_steps
    if found.graph_s > _MOST_OF_GRAPHS * work_s > 0:
        share = f"{found.graph_s / work_s:.0%}"
        raise trace.refused(
            f"{share} of the time of kernels was launched as CUDA graphs (cudaGraphLaunch), and a trace does not have "
            "the operator of a kernel in a graph, only its 'graph node id'; profile without them, for example with "
            "torch.compile(mode='default') in place of 'reduce-overhead' or 'max-autotune'"
        )
    if not any(seconds[1] + seconds[2] for layer in found.layers.values() for seconds in layer.seconds.values()):
        raise trace.refused(
            "has no backward pass that belongs to a forward one (by sequence numbers); profile training steps, "
            "including loss.backward()"
        )
    return found


def _check_alike(ranks: Sequence[_Rank]) -> None:
    """Refuse ranks with other layers than the first one."""
    names = set(ranks[0].found.layers)
    for rank in ranks[1:]:
        own = set(rank.found.layers)
        if own != names:
            some = ", ".join(sorted(own ^ names)[:3])
            message = (
                f"has other layers than {ranks[0].file} ({some}); give the traces of ranks that compute the "
                "same layers, or of one rank"
            )
            raise InputError(
                Mistake(message, file=rank.file, got=f"{len(own)} layers", allowed=f"the {len(names)} layers")
            )


def _heading(ranks: Sequence[_Rank]) -> str:
    found = ranks[0].found
    steps = ", ".join(str(each.found.num_steps) for each in ranks)
    over = f"{steps} step(s)" if len(ranks) == 1 else f"{len(ranks)} ranks of {steps} steps"
    return f"{len(found.layers)} layers over {over}; times are medians."


def _document(
    ranks: Sequence[_Rank], rows: list[dict[str, Any]], where: dict[str, Any], device: str, model: str | None
) -> dict[str, Any]:
    whole = dict(where)
    iterations = [rank.found.steps.iteration_s for rank in ranks]
    known = [seconds for seconds in iterations if seconds is not None]
    if known:
        whole["iteration_s"] = median(known)
    for key in ("optimizer_s", "communication_s", "recomputed_s", "other_s"):
        whole[key] = median(getattr(rank.found, key) for rank in ranks)
    return {
        "schema": "clustersim.profile/1",
        "tool": "kineto",
        "model": model or "",
        "device": {"name": device},
        "software": {},
        "flags": {},
        "layers": rows,
        "whole": [whole],
        "optimizers": None,
        "node": None,
        "skipped": [],
    }


def _row(name: str, traced: str, ranks: Sequence[_Rank], where: dict[str, Any]) -> dict[str, Any]:
    layers = [(rank.found.layers[traced], rank.found.num_steps) for rank in ranks]
    first: TracedLayer = layers[0][0]
    sizes = first.first.sizes
    shape = {"input": sizes[0]} if sizes else {}
    times = {
        key: median(layer.phase_s(phase, num_steps) for layer, num_steps in layers) for phase, key in enumerate(PHASES)
    }
    spread_s = max(layer.spread_s(num_steps) for layer, num_steps in layers)
    return {"name": name, "op": first.op, "shape": shape, **where, **times, "spread_s": spread_s}


def _first_operator(found: Attributed) -> Event | None:
    return next((layer.first for layer in found.layers.values() if layer.op in _FIRST), None)


def _input(first: Event | None, values: list[list[int]] | None) -> list[int] | None:
    """Return a trace's value for an operator's first tensor (second for an embedding), with recorded shapes."""
    at = 1 if first is not None and first.name == "aten::embedding" else 0
    return values[at] if values is not None and len(values) > at else None


def _batch(trace: Trace, first: Event | None) -> int:
    shape = _input(first, None if first is None else first.sizes)
    if shape and shape[0] >= 1:
        return shape[0]
    has_shapes = any(event.sizes for event in trace.events)
    why = "no layer's first operator has it" if has_shapes else "it was profiled without record_shapes=True"
    raise trace.refused(f"does not have the batch size: {why}; give it with --batch")


def _precision(trace: Trace, found: Attributed, first: Event | None) -> str:
    """Return the precision of the layers with GEMMs: the shorter one if any has it.

    If none of them has one, that of the first layer; an embedding's precision is that of its table.
    """
    known = _gemm_precisions(found)
    if not known and first is not None:
        known = [kind for kind in [_computes_in(first)] if kind is not None]
    if known:
        return next((kind for kind in known if kind != "fp32"), "fp32")
    raise trace.refused("does not say what the precision was; give it as --precision, such as fp32 or amp-bf16")


def _gemm_precisions(found: Attributed) -> list[str]:
    """Return the precision of each layer with GEMMs for which the trace has it."""
    kinds = (_computes_in(layer.first) for layer in found.layers.values() if layer.op in _GEMM_OPS)
    return [kind for kind in kinds if kind is not None]


def _computes_in(op: Event) -> str | None:
    """Return an operator's precision: under autocast its inputs are float, and it casts them inside."""
    inside = (kind for each in op.and_all_inside() for kind in each.types)
    short = next((_PRECISIONS[kind] for kind in inside if kind in _PRECISIONS and kind != "float"), None)
    return short or next((_PRECISIONS.get(kind) for kind in op.types[:1]), None)


def _layout(first: Event | None) -> str:
    """Return nhwc where the channels of the first layer's images are contiguous, none without images."""
    if first is None:
        return "none"
    shape, strides = _input(first, first.sizes), _input(first, first.strides)
    if shape is None or len(shape) != 4:
        return "none"
    return "nhwc" if strides is not None and len(strides) == 4 and strides[1] == 1 != strides[3] else "nchw"


def _catalogue_names(found: Attributed, model: str) -> tuple[dict[str, str], str]:
    """Return the catalogue's name of each layer, kind by kind where the counts agree, and a sentence about it."""
    wanted: dict[str, list[str]] = {}
    for layer in load_model(model).layers:
        wanted.setdefault(layer.op, []).append(layer.name)
    traced: dict[str, list[str]] = {}
    for name, each in found.layers.items():
        traced.setdefault(each.op, []).append(name)
    names = {name: name for name in found.layers}
    unlike = []
    for op, theirs in wanted.items():
        ours = traced.get(op, [])
        if len(ours) == len(theirs):
            names |= dict(zip(ours, theirs, strict=True))
        else:
            unlike.append(f"{op} ({len(ours)} in the trace, {len(theirs)} in {model})")
    taken = sum(len(members) for op, members in wanted.items() if len(traced.get(op, [])) == len(members))
    sentence = f"{taken} layers take the names of {model}."
    return (
        names,
        sentence if not unlike else f"{sentence} Kinds that differ in number keep theirs: {', '.join(unlike)}.",
    )


def _warnings(trace: Trace, found: Attributed, rows: Sequence[dict[str, Any]]) -> list[str]:
    notes = []
    if not any(work.kernel for work in trace.work):
        notes.append("The trace has no GPU kernels: times are the CPU operators' own.")
    if not any(row["backward_weights_s"] for row in rows if row["op"] == "convolution"):
        notes.append("Data and weight gradients of convolutions cannot be distinguished: both count as data.")
    return [*notes, *time_notes(found)]


def _precision_warnings(trace: Trace, found: Attributed, precision: str) -> list[str]:
    """Return warnings about a precision that was read from input types."""
    kinds = _gemm_precisions(found)
    if precision != "fp32" and (num_unlike := sum(kind != precision for kind in kinds)):
        return [
            f"{num_unlike} of {len(kinds)} layers that multiply matrices compute in another precision than "
            f"{precision}, which is recorded for all of them."
        ]
    older = trace.compute_major is not None and trace.compute_major < _AMPERE
    if precision == "fp32" and not older and any(work.kernel for work in trace.work):
        return [
            "TF32 is recorded as float: on an Ampere GPU or newer it cannot be distinguished from fp32. Give "
            "--precision tf32 if it was on."
        ]
    return []
