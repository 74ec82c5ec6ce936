"""Converts an ONNX graph to layers: separates data from weights, and costs each operator per sample."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, replace

from clustersim.errors import InputError, Mistake
from clustersim.interchange.imported import Imported
from clustersim.interchange.onnx_model.graph import OnnxGraph, OnnxNode
from clustersim.interchange.onnx_model.operators import (
    FREE,
    RECIPES,
    SHAPES,
    TRAINED_INPUTS,
    UNTRAINED,
    OpCost,
    elementwise,
    is_parameter,
)
from clustersim.model import Layer, Model


def model_of(graph: OnnxGraph, name: str) -> Imported:
    """Return the workload of a graph; a loss is added for every output."""
    walk = _Walk(graph, {}, set(graph.inputs), set(), set())
    layers = [layer for node in graph.nodes for layer in walk.layers(node)]
    layers += [
        Layer("loss", "loss", 0.0, 0.0, 0.0, 0, elements, elements)
        for output in graph.outputs
        if output in walk.data and output in graph.real and output in graph.shapes
        for elements in [_whole(math.prod(graph.shapes[output]) / graph.batch)]
    ]
    if not walk.owned:
        raise InputError(Mistake("it has no weights: there is nothing to train", file=str(graph.path)))
    unused = [weight for weight in graph.weights if weight not in walk.owned and math.prod(graph.weights[weight]) > 1]
    notes = []
    if unused:
        notes.append(f"{len(unused)} constants are not counted as parameters, such as {unused[0]} (statistics, masks)")
    first = next(iter(graph.inputs))
    sample = "sequence" if first not in graph.real else "image" if len(graph.inputs[first]) == 4 else "sample"
    source = f"{graph.path}, ONNX of opset {graph.opset}"
    sizes = graph.inputs[first]
    tokens = math.prod(sizes) // graph.batch if sample == "sequence" and len(sizes) == 2 else None
    return Imported(Model(name, name, tuple(_named(layers)), sample, source, tokens=tokens), tuple(notes))


@dataclass
class _Walk:
    """State of a pass over a graph.

    `origins` has the weights from which a constant tensor is computed, `owned` the weights whose layer is found,
    `data` the tensors that depend on inputs, `needing` those whose gradient is needed.
    """

    graph: OnnxGraph
    origins: dict[str, frozenset[str]]
    data: set[str]
    needing: set[str]
    owned: set[str]

    def __post_init__(self) -> None:
        self.origins |= {weight: frozenset([weight]) for weight in self.graph.weights}

    def layers(self, node: OnnxNode) -> list[Layer]:
        """Return the layers of an operator; none where it reads no data, or is a view."""
        read = [tensor for tensor in node.inputs if tensor]
        if node.op in SHAPES:
            return []
        if not any(tensor in self.data for tensor in read):
            made = frozenset().union(*(self.origins.get(tensor, frozenset()) for tensor in read))
            self.origins |= dict.fromkeys(node.outputs, made)
            return []
        self.data |= set(node.outputs)
        mine = self._new_parameters(node)
        if mine or any(tensor in self.needing for tensor in read):
            self.needing |= set(node.outputs)
        if node.op in UNTRAINED:
            raise InputError(
                Mistake(
                    f"{node.op} '{node.name}' computes with integers: a quantised model cannot be trained",
                    file=str(self.graph.path),
                    got=node.op,
                )
            )
        if self._is_view(node) or not any(output in self.graph.real for output in node.outputs):
            return []
        costs = self._costs(node)
        share, rest = divmod(sum(math.prod(self.graph.weights[weight]) for weight in mine), len(costs))
        name = node.name.strip("/")
        return [self._layer(name, cost, share + (rest if index == 0 else 0)) for index, cost in enumerate(costs)]

    def _costs(self, node: OnnxNode) -> list[OpCost]:
        try:
            return RECIPES.get(node.op, elementwise)(self, node)
        except InputError:
            raise
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:  # an input or attribute is missing
            raise InputError(
                Mistake(
                    f"{node.op} '{node.name}' does not follow ONNX ({type(error).__name__}: {error})",
                    file=str(self.graph.path),
                    got=node.op,
                )
            ) from None

    def _is_view(self, node: OnnxNode) -> bool:
        """Return whether an operator is a view of data: selecting one row by a constant is a slice, not a copy."""
        picks = node.op == "Gather" and node.inputs[0] in self.data and self.is_weight(node.inputs[1])
        return node.op in FREE or (picks and self.graph.shapes.get(node.inputs[1]) == ())

    def is_weight(self, tensor: str) -> bool:
        """Return whether a tensor is computed only from constants."""
        return tensor not in self.data

    def needs_gradient(self, tensor: str) -> bool:
        """Return whether the backward pass continues below a tensor."""
        return tensor in self.needing

    def _new_parameters(self, node: OnnxNode) -> list[str]:
        """Return the weights at the parameter inputs of this operator that no earlier operator owns."""
        places = TRAINED_INPUTS.get(node.op, ())
        found = frozenset().union(*(self.origins.get(node.input(place), frozenset()) for place in places))
        weights = self.graph.weights
        mine = [
            weight
            for weight in weights
            if weight in found and weight not in self.owned and is_parameter(node.op, weights[weight])
        ]
        self.owned |= set(mine)
        return mine

    def _layer(self, name: str, cost: OpCost, num_parameters: int) -> Layer:
        batch = self.graph.batch
        weights = cost.flop * cost.weight_gradients
        return Layer(
            f"{name}.{cost.label}" if cost.label else name,
            cost.op,
            _whole(cost.flop / batch),
            _whole(cost.flop * cost.data_gradients / batch),
            _whole(weights / batch),
            num_parameters,
            _whole(cost.input_elements / batch),
            _whole(cost.output_elements / batch),
            cost.shape,
            kept_bytes=cost.kept_bytes,
        )


def _named(layers: list[Layer]) -> list[Layer]:
    """Return the layers with unique names."""
    counts: Counter[str] = Counter()
    taken = {layer.name for layer in layers}
    named = []
    for layer in layers:
        counts[layer.name] += 1
        name = layer.name
        while counts[layer.name] > 1 and (name := f"{layer.name}.{counts[layer.name]}") in taken:
            counts[layer.name] += 1
        taken.add(name)
        named.append(replace(layer, name=re.sub(r"\s+", " ", name)))
    return named


def _whole(value: float) -> float:
    return float(round(value)) if math.isclose(value, round(value), rel_tol=1e-12) else value
