"""A `clustersim.profile/1` from a trace, with the catalogue's layer names if a model is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from clustersim.interchange.kineto.layers import PHASES, Attributed, TracedLayer, all_children, attribute
from clustersim.interchange.kineto.trace import Event, Trace, read_trace
from clustersim.model import load_model

_PRECISIONS = {"float": "fp32", "c10::BFloat16": "amp-bf16", "c10::Half": "amp-fp16"}
_FIRST = ("convolution", "fully-connected", "embedding")  # layers whose input has the batch size
_GEMM_OPS = ("convolution", "fully-connected", "matmul", "lstm", "attention")  # layers whose input autocast casts
_AMPERE = 8  # the lowest compute capability with TF32


@dataclass(frozen=True)
class ImportedProfile:
    """A profile and notes on it, as sentences."""

    document: dict[str, Any]
    notes: tuple[str, ...]


def import_kineto(
    path: str | Path,
    model: str | None = None,
    batch: int | None = None,
    precision: str | None = None,
    layout: str | None = None,
    device: str | None = None,
) -> ImportedProfile:
    """Return the layer profile of a torch.profiler trace.

    Batch, precision and layout are read from the operators' shapes, types and strides (record_shapes=True) if
    they are not given. With a `model` of the catalogue, layers take its names, kind by kind in order of
    their first call, where a kind has the same number of members in both. Times are medians over the profiled steps.
    """
    trace = read_trace(path)
    found = attribute(trace)
    if not any(seconds[1] + seconds[2] for layer in found.layers.values() for seconds in layer.seconds.values()):
        raise trace.refused(
            "has no backward pass that belongs to a forward one (by sequence numbers); profile training steps, "
            "including loss.backward()"
        )
    first = _first_operator(found)
    where: dict[str, Any] = {
        "batch": batch or _batch(trace, first),
        "precision": precision or _precision(trace, found, first),
        "layout": layout or _layout(first),
    }
    notes = [f"{len(found.layers)} layers over {found.num_steps} step(s); times are medians."]
    names = {name: name for name in found.layers}
    if model is not None:
        names, note = _catalogue_names(found, model)
        notes.append(note)
    rows = [_row(names[name], layer, where, found.num_steps) for name, layer in found.layers.items()]
    notes += _warnings(trace, found, rows)
    if precision is None:
        notes += _precision_warnings(trace, found, where["precision"])
    name = device or trace.device or "CPU"
    return ImportedProfile(_document(trace, found, rows, where, name, model), tuple(notes))


def _document(
    trace: Trace, found: Attributed, rows: list[dict[str, Any]], where: dict[str, Any], device: str, model: str | None
) -> dict[str, Any]:
    whole = dict(where)
    if trace.steps:
        whole["iteration_s"] = median(step.duration_us for step in trace.steps) / 1e6
    return {
        "schema": "clustersim.profile/1",
        "tool": "kineto",
        "model": model or "",
        "device": {"name": device},
        "software": {},
        "flags": {},
        "layers": rows,
        "whole": [{**whole, "optimizer_s": found.optimizer_s, "other_s": found.other_s}],
        "optimizers": None,
        "node": None,
        "skipped": [],
    }


def _row(name: str, layer: TracedLayer, where: dict[str, Any], num_steps: int) -> dict[str, Any]:
    sizes = layer.first.args.get("Input Dims")
    shape = {"input": sizes[0]} if isinstance(sizes, list) and sizes else {}
    times = {key: layer.phase_s(phase, num_steps) for phase, key in enumerate(PHASES)}
    return {"name": name, "op": layer.op, "shape": shape, **where, **times, "spread_s": layer.spread_s(num_steps)}


def _first_operator(found: Attributed) -> Event | None:
    return next((layer.first for layer in found.layers.values() if layer.op in _FIRST), None)


def _input(first: Event | None, key: str) -> Any:
    """Return a trace's value for an operator's first tensor (second for an embedding), with recorded shapes."""
    values = None if first is None else first.args.get(key)
    at = 1 if first is not None and first.name == "aten::embedding" else 0
    return values[at] if isinstance(values, list) and len(values) > at else None


def _batch(trace: Trace, first: Event | None) -> int:
    shape = _input(first, "Input Dims")
    if isinstance(shape, list) and shape and isinstance(shape[0], int):
        return shape[0]
    raise trace.refused(
        "does not have the batch size: it was profiled without record_shapes=True; give it with --batch"
    )


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
    inside = (kind for each in (op, *all_children(op)) for kind in _types(each))
    short = next((_PRECISIONS[kind] for kind in inside if kind in _PRECISIONS and kind != "float"), None)
    return short or next((_PRECISIONS.get(kind) for kind in _types(op)[:1]), None)


def _types(op: Event) -> list[str]:
    values = op.args.get("Input type")
    return [str(value) for value in values] if isinstance(values, list) else []


def _layout(first: Event | None) -> str:
    """Return nhwc where the channels of the first layer's images are contiguous, none without images."""
    shape, strides = _input(first, "Input Dims"), _input(first, "Input Strides")
    if not isinstance(shape, list) or len(shape) != 4:
        return "none"
    return "nhwc" if isinstance(strides, list) and len(strides) == 4 and strides[1] == 1 != strides[3] else "nchw"


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
    total_s = sum(row[key] for row in rows for key in PHASES)
    notes = []
    if not any(work.kernel for work in trace.work):
        notes.append("The trace has no GPU kernels: times are the CPU operators' own.")
    if not any(row["backward_weights_s"] for row in rows if row["op"] == "convolution"):
        notes.append("Data and weight gradients of convolutions cannot be distinguished: both count as data.")
    if found.other_s > 0.05 * total_s:
        notes.append(f"{found.other_s * 1e3:.3g} ms per step belong to no layer (copies, sums of gradients, scaling).")
    if not trace.steps:
        notes.append(
            "The trace has no ProfilerStep marks: it is assumed to be one step. torch writes them if "
            "the profiler has a schedule= and the loop calls prof.step()."
        )
    return notes


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
