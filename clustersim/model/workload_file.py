"""Reads a user's model from a workload file: a YAML file of layers, optionally with measured times.

    name: my-net
    layers:
      - {name: conv1, op: convolution, flop: 3.2 GFLOP, parameter_bytes: 37632, activation_bytes: 3.2 MB}
      - {name: fc, flop: 4096000, parameter_bytes: 8196000, forward_s: 0.0004, backward_s: 0.0009}

FLOP and activations are per sample; seconds are those of the scenario's whole batch. A bare number is in the unit
of its key. A layer gives both times or neither, and FLOP where it gives no times; the default of all other keys is
zero. A layer with FLOP or a `shape` and no times has a known `op` (`KNOWN_OPS`). Parameters and activations are
assumed to be fp32, 4 bytes each; a size with a prefix (`97.5 MiB`) is rounded to the nearest parameter. An imported
model's file has more keys, each where it differs from its default: `input_bytes`, `kept_bytes` (at any precision),
`backward_data_flop`, `backward_weights_flop`, and the `shape` of the kernel (`Layer.shape`). `branch` names a path,
`weights_of` a layer whose weights are also used (`Layer`). Next to the layers, `weight_share` is the size of stored
weights relative to fp32 (`Model.weight_share`), and `tokens` how many a sample of text has (`Model.tokens`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

from clustersim.errors import InputError, Mistake, in_order, unknown_name
from clustersim.model.catalogue import load_model
from clustersim.model.layer import Layer, LayerTime, Model
from clustersim.model.layer_schema import (
    FLASH,
    KNOWN_OPS,
    LARGEST_SIZE,
    OPTIONAL_SHAPE_KEYS,
    backward_flop,
    default_inputs,
    shape_keys,
)
from clustersim.reading import Limits, TreeNode, got_text, read_text, read_yaml
from clustersim.reading.files import exists, looks_like_path
from clustersim.units import parse

GivenTimes = tuple[LayerTime | None, ...]
"""For each layer the times that the file gives, as `measured`, or None."""

BYTES_PER_ELEMENT = 4
DEFAULT_OP = "custom"

_QUANTITIES = {
    "flop": "flop",
    "parameter_bytes": "size",
    "activation_bytes": "size",
    "input_bytes": "size",
    "kept_bytes": "size",
    "backward_data_flop": "flop",
    "backward_weights_flop": "flop",
    "forward_s": "duration",
    "backward_s": "duration",
}
_LIMITS = Limits(num_events=500_000)
"""Limits of a workload file: a tool may have written it, with a dozen values for each of many layers."""

_MODEL_KEYS = ("name", "layers", "sample", "source", "weight_share", "tokens")
_LAYER_KEYS = ("name", "op", *_QUANTITIES, "shape", "branch", "weights_of")


def load_workload(name: str | Path) -> tuple[Model, GivenTimes | None]:
    """Return a model, and the times of its layers where a workload file gives them.

    A name is one of the catalogue's; a string that ends in `.yaml` or contains a slash is a path.

    >>> load_workload("googlenet")[0].title
    'GoogLeNet, no auxiliary heads'
    """
    text = str(name)
    if text.endswith((".yaml", ".yml")) or (looks_like_path(text) and exists(Path(text))):
        return read_workload_file(Path(text))
    try:
        return load_model(text), None
    except InputError as error:
        if not looks_like_path(text):
            raise
        raise InputError(
            [replace(each, message=f"there is no such file, and {each.message}") for each in error.mistakes]
        ) from None


def read_workload_file(path: str | Path) -> tuple[Model, GivenTimes | None]:
    """Return the model of a workload file and the times it gives, None where it gives none.

    The backward pass takes twice the forward FLOP, half to data and half to weights. No gradient is computed
    below the first layer with parameters, which therefore has the half to weights only. A given
    `backward_s` is split in the same proportion. All mistakes are reported together.
    """
    root, mistakes = read_yaml(read_text(Path(path), _LIMITS.num_bytes), str(path), limits=_LIMITS, typed=False)
    reader = _Reader(mistakes)
    top = reader.mapping(root, "", _MODEL_KEYS, required=("name", "layers"))
    name = reader.text(top.get("name"), "name")
    sample = reader.text(top.get("sample"), "sample") or "sample"
    source = reader.text(top.get("source"), "source") or str(path)
    weight_share = reader.share(top.get("weight_share"), "weight_share")
    tokens = reader.size(top["tokens"], "tokens") if "tokens" in top else None
    layers = [
        _layer_entry(reader, node, f"layers.{index}")
        for index, node in enumerate(reader.sequence(top.get("layers"), "layers"))
    ]
    reader.refuse_repeated(layers)
    reader.refuse_unknown_weights(layers)
    if reader.mistakes:
        raise InputError(in_order(reader.mistakes))
    made = _layers(layers)
    times = tuple(_given_time(layer, written) for layer, written in zip(made, layers, strict=True))
    return Model(name, name, made, sample, source, weight_share, tokens), times if any(times) else None


@dataclass(frozen=True)
class _LayerEntry:
    """A layer as written in the file; None where a quantity is not given."""

    name: str
    op: str
    quantities: Mapping[str, float | None]
    name_node: TreeNode
    key: str
    shape: Mapping[str, int]
    branch: str
    weights_of: str

    def given(self, quantity: str, otherwise: float = 0.0) -> float:
        value = self.quantities[quantity]
        return otherwise if value is None else value


def _layer_entry(reader: _Reader, node: TreeNode, key: str) -> _LayerEntry:
    before = len(reader.mistakes)
    keys = reader.mapping(node, key, _LAYER_KEYS, required=("name",))
    name = reader.text(keys.get("name"), f"{key}.name")
    quantities = {
        quantity: reader.quantity(keys.get(quantity), f"{key}.{quantity}", unit)
        for quantity, unit in _QUANTITIES.items()
    }
    is_estimated = quantities["forward_s"] is None and bool(quantities["flop"] or "shape" in keys)
    op = reader.operation(keys.get("op"), f"{key}.op", is_estimated)
    shape = reader.shape(keys.get("shape"), f"{key}.shape", op)
    if len(reader.mistakes) == before:
        _check_layer(reader, node, key, quantities)
    branch, weights_of = (reader.text(keys.get(each), f"{key}.{each}") for each in ("branch", "weights_of"))
    return _LayerEntry(name, op, quantities, keys.get("name", node), key, shape, branch, weights_of)


def _check_layer(reader: _Reader, node: TreeNode, key: str, quantities: Mapping[str, float | None]) -> None:
    """Refuse a layer that gives one time of two, or neither times nor FLOP."""
    missing = [name for name in ("forward_s", "backward_s") if quantities[name] is None]
    if len(missing) == 1:
        other = "backward_s" if missing[0] == "forward_s" else "forward_s"
        reader.mistake(node, f"{key}.{missing[0]}", f"is missing; give both times or neither (there is {other})")
    elif missing and quantities["flop"] is None:
        reader.mistake(node, f"{key}.flop", "is missing; a layer needs flop, or forward_s and backward_s")


def _layers(layers: Sequence[_LayerEntry]) -> tuple[Layer, ...]:
    """Return the layers, with defaults where a value is not given."""
    parameters = [round(layer.given("parameter_bytes") / BYTES_PER_ELEMENT) for layer in layers]
    outputs = [layer.given("activation_bytes") / BYTES_PER_ELEMENT for layer in layers]
    inputs = default_inputs(outputs)
    trained_below = [0, *accumulate(parameters)]
    made = []
    for index, layer in enumerate(layers):
        flop = layer.given("flop")
        data, weights = backward_flop(flop, parameters[index] > 0, trained_below[index] > 0)
        data, weights = layer.given("backward_data_flop", data), layer.given("backward_weights_flop", weights)
        read = layer.given("input_bytes", BYTES_PER_ELEMENT * inputs[index]) / BYTES_PER_ELEMENT
        made.append(
            Layer(
                layer.name,
                layer.op,
                flop,
                data,
                weights,
                parameters[index],
                read,
                outputs[index],
                layer.shape,
                kept_bytes=layer.quantities["kept_bytes"],
                branch=layer.branch,
                weights_of=layer.weights_of,
            )
        )
    return tuple(made)


def _given_time(layer: Layer, written: _LayerEntry) -> LayerTime | None:
    """Return the file's times of a layer; the backward time is split in proportion to FLOP, without FLOP it goes to
    data.
    """
    if written.quantities["forward_s"] is None:
        return None
    backward_s = written.given("backward_s")
    flop_backward = layer.flop_backward_data + layer.flop_backward_weights
    weights_s = backward_s * (layer.flop_backward_weights / flop_backward if flop_backward else 0.0)
    return LayerTime(layer, written.given("forward_s"), backward_s - weights_s, weights_s, "measured")


class _Reader:
    """Walks the nodes of a workload file and collects its mistakes."""

    def __init__(self, mistakes: list[Mistake]):
        self.mistakes = mistakes

    def mistake(
        self, node: TreeNode, key: str | None, message: str, got: str | None = None, allowed: str | None = None
    ) -> None:
        self.mistakes.append(node.place.mistake(message, key or None, got, allowed))

    def mapping(self, node: TreeNode, key: str, known: Sequence[str], required: Iterable[str]) -> dict[str, TreeNode]:
        """Return the nodes of a map by key, without those that are null; report unknown and missing keys."""
        if not isinstance(node.value, dict):
            self.mistake(node, key, f"expected a map of {', '.join(known)}", allowed=", ".join(known))
            return {}
        for name, value in node.children.items():
            if name not in known:
                place, path = value.key_place or value.place, f"{key}.{name}" if key else name
                message = str(unknown_name("key", name, known))
                self.mistakes.append(place.mistake(message, path, name, ", ".join(known)))
        found = {name: value for name, value in node.children.items() if value.value is not None}
        for name in required:
            if name not in found:
                self.mistake(node, f"{key}.{name}" if key else name, "is missing", "nothing", name)
        return found

    def sequence(self, node: TreeNode | None, key: str) -> Sequence[TreeNode]:
        """Return the nodes of a non-empty list."""
        if node is None:
            return ()
        if isinstance(node.value, list) and node.value:
            return node.value
        allowed = "a list of at least one layer"
        self.mistake(node, key, f"expected {allowed}", got_text(node.plain()), allowed)
        return ()

    def text(self, node: TreeNode | None, key: str) -> str:
        """Return a scalar as written; empty if not given."""
        if node is None:
            return ""
        if isinstance(node.value, str) and node.value.strip():
            return node.value
        self.mistake(node, key, "expected a name", got_text(node.plain()), "a name")
        return ""

    def operation(self, node: TreeNode | None, key: str, is_estimated: bool) -> str:
        """Return a layer's operation; it must be a known one where a kernel's time is estimated from it."""
        op = self.text(node, key) or DEFAULT_OP
        if node is not None and is_estimated and op not in KNOWN_OPS:
            message = str(unknown_name("operation with FLOP or a shape", op, KNOWN_OPS))
            self.mistake(node, key, message, op, ", ".join(sorted(KNOWN_OPS)))
        return op

    def quantity(self, node: TreeNode | None, key: str, quantity: str) -> float | None:
        """Return an SI number: written bare, or with a unit."""
        if node is None:
            return None
        try:
            value = float(node.value) if isinstance(node.value, str) else math.nan
        except ValueError:
            return self._with_unit(node, key, quantity)
        if not (math.isfinite(value) and value >= 0):
            shown = node.value if isinstance(node.value, str) else "a list or a map"
            self.mistake(node, key, f"expected a number of at least 0 (got {shown})", got=shown, allowed="0 or more")
        elif key.endswith("parameter_bytes") and value % BYTES_PER_ELEMENT:
            whole = round(value / BYTES_PER_ELEMENT) * BYTES_PER_ELEMENT
            allowed = f"a multiple of {BYTES_PER_ELEMENT} bytes, one for each fp32 parameter"
            message = f"expected {allowed}, such as {whole} (got {node.value})"
            self.mistake(node, key, message, got=node.value, allowed=allowed)
        return value

    def share(self, node: TreeNode | None, key: str) -> float:
        """Return a number above 0 and at most 1; 1 if not given."""
        if node is None:
            return 1.0
        text = node.value if isinstance(node.value, str) else "a list or a map"
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0 < value <= 1:
            allowed = "a number above 0 and at most 1"
            self.mistake(node, key, f"expected {allowed} (got {text})", got=text, allowed=allowed)
        return value

    def shape(self, node: TreeNode | None, key: str, op: str) -> Mapping[str, int]:
        """Return the sizes of a kernel, whole numbers: the required keys of its operation, and given optional ones."""
        if node is None:
            return {}
        required = shape_keys(op)
        known = (*required, *OPTIONAL_SHAPE_KEYS.get(op, ()))
        found = self.mapping(node, key, known, required)
        sizes = {name: self.size(found[name], f"{key}.{name}") for name in known if name in found}
        if sizes.get("flash", 2) not in FLASH:
            allowed = ", ".join(f"{number} ({name})" for number, name in FLASH.items())
            message = f"expected a kernel of fused attention: {allowed} (got {sizes['flash']})"
            self.mistake(found["flash"], f"{key}.flash", message, got=str(sizes["flash"]), allowed=allowed)
        return sizes

    def size(self, node: TreeNode, key: str) -> int:
        least = 0 if key.endswith(("pad_h", "pad_w")) else 1
        text = node.value if isinstance(node.value, str) else ""
        if not (text.isascii() and text.isdecimal() and least <= int(text[:15]) <= LARGEST_SIZE):
            allowed = f"a whole number of at least {least}"
            self.mistake(node, key, f"expected {allowed} (got {text or 'none'})", got=text, allowed=allowed)
            return least
        return int(text)

    def _with_unit(self, node: TreeNode, key: str, quantity: str) -> float | None:
        try:
            return parse(node.value, quantity)
        except InputError as error:
            wrong = error.mistakes[0]
            self.mistake(node, key, wrong.message, wrong.got, wrong.allowed)
            return None

    def refuse_unknown_weights(self, layers: Sequence[_LayerEntry]) -> None:
        """Refuse `weights_of` a layer without parameters, or one not above; and in a layer with its own parameters."""
        owners: set[str] = set()
        for layer in layers:
            place, key = layer.name_node, f"{layer.key}.weights_of"
            if layer.weights_of and layer.given("parameter_bytes"):
                message = f"'{layer.name}' has its own parameters; remove parameter_bytes or weights_of"
                self.mistake(place, key, message, layer.weights_of, "of a layer without parameter_bytes")
            elif layer.weights_of and layer.weights_of not in owners:
                message = f"no layer above with parameters is called '{layer.weights_of}'"
                self.mistake(place, key, message, layer.weights_of, ", ".join(sorted(owners)) or "none")
            if layer.given("parameter_bytes"):
                owners.add(layer.name)

    def refuse_repeated(self, layers: Iterable[_LayerEntry]) -> None:
        """Refuse two layers of one name."""
        seen: set[str] = set()
        for layer in layers:
            if layer.name and layer.name in seen:
                message = f"another layer is already called '{layer.name}'; names must be unique"
                self.mistake(layer.name_node, f"{layer.key}.name", message, layer.name, "a unique name")
            seen.add(layer.name)
