"""Reads a model that a user wrote down: a YAML file of layers, with times where somebody measured them.

    name: my-net
    layers:
      - {name: conv1, op: convolution, flop: 3.2 GFLOP, parameter_bytes: 37632, activation_bytes: 3.2 MB}
      - {name: fc, flop: 4096000, parameter_bytes: 8196000, forward_s: 0.0004, backward_s: 0.0009}

FLOP and activations are one sample's; seconds are those of the scenario's whole batch. A bare number is in
the unit of its key. A layer gives both times or neither, and FLOP where it gives no times; what else is
left out is zero. Parameters and activations are taken as fp32, 4 bytes each; a size with a
prefix (`97.5 MiB`) is taken to the nearest parameter. An imported model's file says more, each where it is not
what follows from the rest: `input_bytes`, `backward_data_flop`, `backward_weights_flop`, and the `shape` of the
kernel (`Layer.shape`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from clustersim.errors import InputError, Mistake, unknown_name
from clustersim.units import parse
from clustersim.workload.layer import Layer, LayerTime, Model
from clustersim.workload.written_layer import LARGEST_SIZE, backward_flop, passed_on, shape_keys
from clustersim.workload.yaml_nodes import Node, YamlFile

GivenTimes = tuple[LayerTime | None, ...]
"""For each layer the times that the file gives, as `measured`, or None."""

BYTES_PER_ELEMENT = 4
DEFAULT_OP = "custom"

_QUANTITIES = {
    "flop": "flop",
    "parameter_bytes": "size",
    "activation_bytes": "size",
    "input_bytes": "size",
    "backward_data_flop": "flop",
    "backward_weights_flop": "flop",
    "forward_s": "duration",
    "backward_s": "duration",
}
_MODEL_KEYS = ("name", "layers", "sample", "source")
_LAYER_KEYS = ("name", "op", *_QUANTITIES, "shape")


def read_workload_file(path: str | Path) -> tuple[Model, GivenTimes | None]:
    """Return the model of a workload file and the times it gives, None where it gives none.

    The backward pass takes twice the forward FLOP, half to data and half to weights. No gradient goes
    below the first layer with parameters, which therefore takes the half to weights only. A given
    `backward_s` is split in the same proportion. Every mistake is reported at once.
    """
    file = YamlFile(path)
    reader = _Reader(file)
    top = reader.mapping(file.root, "", _MODEL_KEYS, required=("name", "layers"))
    name = reader.text(top.get("name"), "name")
    sample = reader.text(top.get("sample"), "sample") or "sample"
    source = reader.text(top.get("source"), "source") or str(path)
    layers = [
        _written_layer(reader, node, f"layers.{index}")
        for index, node in enumerate(reader.sequence(top.get("layers"), "layers"))
    ]
    reader.refuse_repeated(layers)
    if reader.mistakes:
        raise InputError(reader.mistakes)
    made = _layers(layers)
    times = tuple(_given_time(layer, written) for layer, written in zip(made, layers, strict=True))
    return Model(name, name, made, sample, source), times if any(times) else None


@dataclass(frozen=True)
class _Written:
    """A layer as the file has it; None where a quantity is not given."""

    name: str
    op: str
    quantities: Mapping[str, float | None]
    name_node: Node | None
    key: str
    shape: Mapping[str, int]

    def given(self, quantity: str, otherwise: float = 0.0) -> float:
        value = self.quantities[quantity]
        return otherwise if value is None else value


def _written_layer(reader: _Reader, node: Node, key: str) -> _Written:
    before = len(reader.mistakes)
    keys = reader.mapping(node, key, _LAYER_KEYS, required=("name",))
    name = reader.text(keys.get("name"), f"{key}.name")
    op = reader.text(keys.get("op"), f"{key}.op") or DEFAULT_OP
    quantities = {
        quantity: reader.quantity(keys.get(quantity), f"{key}.{quantity}", unit)
        for quantity, unit in _QUANTITIES.items()
    }
    shape = reader.shape(keys.get("shape"), f"{key}.shape", op)
    if len(reader.mistakes) == before:
        _check_layer(reader, node, key, quantities)
    return _Written(name, op, quantities, keys.get("name"), key, shape)


def _check_layer(reader: _Reader, node: Node, key: str, quantities: Mapping[str, float | None]) -> None:
    """Refuse a layer that gives one time of two, or neither times nor FLOP."""
    missing = [name for name in ("forward_s", "backward_s") if quantities[name] is None]
    if len(missing) == 1:
        other = "backward_s" if missing[0] == "forward_s" else "forward_s"
        reader.mistake(node, f"{key}.{missing[0]}", f"is missing; give both times or neither (there is {other})")
    elif missing and quantities["flop"] is None:
        reader.mistake(node, f"{key}.flop", "is missing; a layer needs flop, or forward_s and backward_s")


def _layers(layers: Sequence[_Written]) -> tuple[Layer, ...]:
    """Return the layers, with what follows from the rest where it is not given."""
    parameters = [round(layer.given("parameter_bytes") / BYTES_PER_ELEMENT) for layer in layers]
    outputs = [layer.given("activation_bytes") / BYTES_PER_ELEMENT for layer in layers]
    inputs = passed_on(outputs)
    trained_below = [0, *accumulate(parameters)]
    made = []
    for index, layer in enumerate(layers):
        flop = layer.given("flop")
        data, weights = backward_flop(flop, parameters[index] > 0, trained_below[index] > 0)
        data, weights = layer.given("backward_data_flop", data), layer.given("backward_weights_flop", weights)
        read = layer.given("input_bytes", BYTES_PER_ELEMENT * inputs[index]) / BYTES_PER_ELEMENT
        made.append(
            Layer(layer.name, layer.op, flop, data, weights, parameters[index], read, outputs[index], layer.shape)
        )
    return tuple(made)


def _given_time(layer: Layer, written: _Written) -> LayerTime | None:
    """Return the file's times of a layer, the backward one split as its FLOP are; without FLOP it goes to data."""
    if written.quantities["forward_s"] is None:
        return None
    backward_s = written.given("backward_s")
    flop_backward = layer.flop_backward_data + layer.flop_backward_weights
    weights_s = backward_s * (layer.flop_backward_weights / flop_backward if flop_backward else 0.0)
    return LayerTime(layer, written.given("forward_s"), backward_s - weights_s, weights_s, "measured")


class _Reader:
    """Walks the nodes of a workload file and collects its mistakes."""

    def __init__(self, file: YamlFile):
        self.file = file
        self.mistakes: list[Mistake] = []

    def mistake(
        self, node: Node | None, key: str | None, message: str, got: str | None = None, allowed: str | None = None
    ) -> None:
        self.mistakes.append(self.file.mistake(message, key, node, got, allowed))

    def mapping(self, node: Node, key: str, known: Sequence[str], required: Iterable[str]) -> dict[str, Node]:
        """Return the nodes of a map by key, without those that say null; say what is unknown, double or missing."""
        if node.pairs is None:
            self.mistake(node, key, f"expected a map of {', '.join(known)}", allowed=", ".join(known))
            return {}
        found: dict[str, Node] = {}
        for name_node, value in node.pairs:
            name = name_node.text or "?"
            path = f"{key}.{name}" if key else name
            if name not in known:
                self.mistake(name_node, path, str(unknown_name("key", name, known)), name, ", ".join(known))
            elif name in found:
                self.mistake(name_node, path, "is given twice; keep one", got=name)
            found[name] = value
        for name in required:
            if name not in found or found[name].is_null:
                self.mistake(node, f"{key}.{name}" if key else name, "is missing")
        return {name: value for name, value in found.items() if not value.is_null}

    def sequence(self, node: Node | None, key: str) -> tuple[Node, ...]:
        """Return the nodes of a list that has at least one."""
        if node is None:
            return ()
        if not node.items:
            self.mistake(node, key, "expected a list of at least one layer")
        return node.items or ()

    def text(self, node: Node | None, key: str) -> str:
        """Return a scalar as it is written; empty where it is not given."""
        if node is None:
            return ""
        if node.text is None or not node.text.strip():
            self.mistake(node, key, "expected a name")
        return node.text or ""

    def quantity(self, node: Node | None, key: str, quantity: str) -> float | None:
        """Return an SI number: written bare, or with a unit."""
        if node is None:
            return None
        try:
            value = float(node.text) if node.text is not None else math.nan
        except ValueError:
            return self._with_unit(node, key, quantity)
        if not (math.isfinite(value) and value >= 0):
            shown = node.text if node.text is not None else "a list or a map"
            self.mistake(node, key, f"expected a number of at least 0 (got {shown})", got=shown, allowed="0 or more")
        elif key.endswith("parameter_bytes") and value % BYTES_PER_ELEMENT:
            whole = round(value / BYTES_PER_ELEMENT) * BYTES_PER_ELEMENT
            allowed = f"a multiple of {BYTES_PER_ELEMENT} bytes, one for each fp32 parameter"
            message = f"expected {allowed}, such as {whole} (got {node.text})"
            self.mistake(node, key, message, got=node.text, allowed=allowed)
        return value

    def shape(self, node: Node | None, key: str, op: str) -> Mapping[str, int]:
        """Return the sizes of a kernel: all that its operation has, whole numbers."""
        if node is None:
            return {}
        known = shape_keys(op)
        found = self.mapping(node, key, known, required=known)
        return {name: self._size(found[name], f"{key}.{name}") for name in known if name in found}

    def _size(self, node: Node, key: str) -> int:
        least = 0 if key.endswith(("pad_h", "pad_w")) else 1
        text = node.text or ""
        if not (text.isascii() and text.isdecimal() and least <= int(text[:15]) <= LARGEST_SIZE):
            allowed = f"a whole number of at least {least}"
            self.mistake(node, key, f"expected {allowed} (got {text or 'none'})", got=text, allowed=allowed)
            return least
        return int(text)

    def _with_unit(self, node: Node, key: str, quantity: str) -> float | None:
        try:
            return parse(node.text, quantity)
        except InputError as error:
            wrong = error.mistakes[0]
            self.mistake(node, key, wrong.message, wrong.got, wrong.allowed)
            return None

    def refuse_repeated(self, layers: Iterable[_Written]) -> None:
        """Refuse two layers of one name."""
        seen: set[str] = set()
        for layer in layers:
            if layer.name and layer.name in seen:
                message = f"another layer is called '{layer.name}' already; names differ"
                self.mistake(layer.name_node, f"{layer.key}.name", message, got=layer.name)
            seen.add(layer.name)
