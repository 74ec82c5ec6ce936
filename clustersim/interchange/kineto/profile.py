"""A `clustersim.profile/1` from a trace, under the names of the catalogue's layers where a model is given."""

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
_FIRST = ("convolution", "fully-connected", "embedding")  # layers whose input says how large a batch is
_PRODUCTS = ("convolution", "fully-connected", "matmul", "lstm", "attention")  # layers that autocast casts the input of
_AMPERE = 8  # the compute capability from which TF32 is to be had


@dataclass(frozen=True)
class ImportedProfile:
    """A profile and what should be known about it, in sentences."""

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

    Batch, precision and layout are read from the operators' shapes, types and strides (record_shapes=True) where
    they are not given. With a `model` of the catalogue, layers take its names, kind by kind in order of
    their first call, where a kind has as many members in both. Times are medians over the profiled steps.
    """
    trace = read_trace(path)
    found = attribute(trace)
    if not any(seconds[1] + seconds[2] for layer in found.layers.values() for seconds in layer.seconds.values()):
        raise trace.refused(
            "has no backward pass that leads to a forward one (by sequence numbers); profile training steps, "
            "loss.backward() included"
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
    notes += _doubts(trace, found, rows)
    if precision is None:
        notes += _doubts_of_precision(trace, found, where["precision"])
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
    """Return what a trace with shapes says about an operator's first tensor (an embedding's is its second)."""
    values = None if first is None else first.args.get(key)
    at = 1 if first is not None and first.name == "aten::embedding" else 0
    return values[at] if isinstance(values, list) and len(values) > at else None


def _batch(trace: Trace, first: Event | None) -> int:
    shape = _input(first, "Input Dims")
    if isinstance(shape, list) and shape and isinstance(shape[0], int):
        return shape[0]
    raise trace.refused(
        "does not say what the batch was: it was profiled without record_shapes=True; give it as --batch"
    )


def _precision(trace: Trace, found: Attributed, first: Event | None) -> str:
    """Return the precision of the layers that multiply matrices: the shorter one where any has it.

    Where none of them says it the first layer does; an embedding's precision is that of its table.
    """
    known = _product_precisions(found)
    if not known and first is not None:
        known = [kind for kind in [_computes_in(first)] if kind is not None]
    if known:
        return next((kind for kind in known if kind != "fp32"), "fp32")
    raise trace.refused("does not say what the precision was; give it as --precision, such as fp32 or amp-bf16")


def _product_precisions(found: Attributed) -> list[str]:
    """Return what each layer that multiplies matrices computes in, of those where the trace says it."""
    kinds = (_computes_in(layer.first) for layer in found.layers.values() if layer.op in _PRODUCTS)
    return [kind for kind in kinds if kind is not None]


def _computes_in(op: Event) -> str | None:
    """Return an operator's precision: under autocast its inputs are float and it casts them inside."""
    inside = (kind for each in (op, *all_children(op)) for kind in _types(each))
    short = next((_PRECISIONS[kind] for kind in inside if kind in _PRECISIONS and kind != "float"), None)
    return short or next((_PRECISIONS.get(kind) for kind in _types(op)[:1]), None)


def _types(op: Event) -> list[str]:
    values = op.args.get("Input type")
    return [str(value) for value in values] if isinstance(values, list) else []


def _layout(first: Event | None) -> str:
    """Return nhwc where the first layer's images have their channels next to each other, none without images."""
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


def _doubts(trace: Trace, found: Attributed, rows: Sequence[dict[str, Any]]) -> list[str]:
    total_s = sum(row[key] for row in rows for key in PHASES)
    notes = []
    if not any(work.kernel for work in trace.work):
        notes.append("The trace has no GPU kernels: times are the CPU operators' own.")
    if not any(row["backward_weights_s"] for row in rows if row["op"] == "convolution"):
        notes.append("Gradients of data and weights of convolutions are not told apart: both stand under the data.")
    if found.other_s > 0.05 * total_s:
        notes.append(f"{found.other_s * 1e3:.3g} ms a step belong to no layer (copies, sums of gradients, scaling).")
    if not trace.steps:
        notes.append(
            "The trace has no ProfilerStep marks: all of it is taken for one step; torch writes them where "
            "the profiler has a schedule= and the loop calls prof.step()."
        )
    return notes


def _doubts_of_precision(trace: Trace, found: Attributed, precision: str) -> list[str]:
    """Return what the types of inputs leave open about a precision that was read from them."""
    kinds = _product_precisions(found)
    if precision != "fp32" and (num_unlike := sum(kind != precision for kind in kinds)):
        return [
            f"{num_unlike} of {len(kinds)} layers that multiply matrices compute in another precision than "
            f"{precision}, under which all of them stand."
        ]
    older = trace.compute_major is not None and trace.compute_major < _AMPERE
    if precision == "fp32" and not older and any(work.kernel for work in trace.work):
        return [
            "TF32 is recorded as float: on an Ampere GPU or a newer one it cannot be told from fp32. Give --precision "
            "tf32 where it was on."
        ]
    return []
