"""Reads a model that a user wrote down: a YAML file of layers, with times where somebody measured them.

    name: my-net
    layers:
      - {name: conv1, op: convolution, flop: 3.2 GFLOP, parameter_bytes: 37632, activation_bytes: 3.2 MB}
      - {name: fc, flop: 4096000, parameter_bytes: 8196000, forward_s: 0.0004, backward_s: 0.0009}

FLOP and activations are one sample's; seconds are those of the scenario's whole batch. A bare number is in
the unit of its key. A layer gives both times or neither, and FLOP where it gives no times; what else is
left out is zero. Parameters and activations are taken as fp32, 4 bytes each.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

from clustersim.errors import InputError, Mistake, unknown_name
from clustersim.units import parse
from clustersim.workload.layer import Layer, LayerTime, Model

GivenTimes = tuple[LayerTime | None, ...]
"""For each layer the times that the file gives, as `measured`, or None."""

MAX_BYTES = 1_000_000
BYTES_PER_ELEMENT = 4
DEFAULT_OP = "custom"

_QUANTITIES = {
    "flop": "flop",
    "parameter_bytes": "size",
    "activation_bytes": "size",
    "forward_s": "duration",
    "backward_s": "duration",
}
_MODEL_KEYS = ("name", "layers", "sample", "source")
_LAYER_KEYS = ("name", "op", *_QUANTITIES)
_NULL = "tag:yaml.org,2002:null"


def read_workload_file(path: str | Path) -> tuple[Model, GivenTimes | None]:
    """Return the model of a workload file and the times it gives, None where it gives none.

    The backward pass takes twice the forward FLOP, half to data and half to weights. No gradient goes
    below the first layer with parameters, which therefore takes the half to weights only. A given
    `backward_s` is split in the same proportion. Every mistake is reported at once.
    """
    reader = _Reader(str(path))
    root = reader.compose(_read_text(Path(path)))
    top = reader.mapping(root, "", _MODEL_KEYS, required=("name", "layers"))
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
    name_node: Any
    key: str

    def given(self, quantity: str) -> float:
        return self.quantities[quantity] or 0.0


def _written_layer(reader: _Reader, node: Any, key: str) -> _Written:
    before = len(reader.mistakes)
    keys = reader.mapping(node, key, _LAYER_KEYS, required=("name",))
    name = reader.text(keys.get("name"), f"{key}.name")
    op = reader.text(keys.get("op"), f"{key}.op") or DEFAULT_OP
    quantities = {
        quantity: reader.quantity(keys.get(quantity), f"{key}.{quantity}", unit)
        for quantity, unit in _QUANTITIES.items()
    }
    if len(reader.mistakes) == before:
        _check_layer(reader, node, key, quantities)
    return _Written(name, op, quantities, keys.get("name"), key)


def _check_layer(reader: _Reader, node: Any, key: str, quantities: Mapping[str, float | None]) -> None:
    """Refuse a layer that gives one time of two, or neither times nor FLOP."""
    missing = [name for name in ("forward_s", "backward_s") if quantities[name] is None]
    if len(missing) == 1:
        other = "backward_s" if missing[0] == "forward_s" else "forward_s"
        reader.mistake(node, f"{key}.{missing[0]}", f"is missing; give both times or neither (there is {other})")
    elif missing and quantities["flop"] is None:
        reader.mistake(node, f"{key}.flop", "is missing; a layer needs flop, or forward_s and backward_s")


def _layers(layers: Sequence[_Written]) -> tuple[Layer, ...]:
    """Return the layers; a layer reads what the one before it passes on, the first as much as it writes."""
    parameters = [round(layer.given("parameter_bytes") / BYTES_PER_ELEMENT) for layer in layers]
    outputs = [layer.given("activation_bytes") / BYTES_PER_ELEMENT for layer in layers]
    inputs = [*outputs[:1], *outputs[:-1]]
    trained_below = [0, *accumulate(parameters)]
    made = []
    for index, layer in enumerate(layers):
        flop = layer.given("flop")
        needs_data = trained_below[index] > 0
        weights = flop if parameters[index] else 0.0
        data = (flop if parameters[index] else 2 * flop) if needs_data else 0.0
        made.append(Layer(layer.name, layer.op, flop, data, weights, parameters[index], inputs[index], outputs[index]))
    return tuple(made)


def _given_time(layer: Layer, written: _Written) -> LayerTime | None:
    """Return the file's times of a layer, the backward one split as its FLOP are; without FLOP it goes to data."""
    if written.quantities["forward_s"] is None:
        return None
    backward_s = written.given("backward_s")
    flop_backward = layer.flop_backward_data + layer.flop_backward_weights
    weights_s = backward_s * (layer.flop_backward_weights / flop_backward if flop_backward else 0.0)
    return LayerTime(layer, written.given("forward_s"), backward_s - weights_s, weights_s, "measured")


@dataclass
class _Reader:
    """Walks the nodes of a YAML file and collects its mistakes."""

    file: str
    lines: list[str] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)

    def compose(self, text: str) -> Any:
        """Return the root node of the file's only document; broken YAML is an InputError with its place."""
        from ruamel.yaml import YAML
        from ruamel.yaml.error import MarkedYAMLError, YAMLError

        self.lines = text.splitlines()
        try:
            return YAML(typ="safe", pure=True).compose(text)
        except MarkedYAMLError as error:
            reason, mark = error.problem or error.context or "broken", error.problem_mark or error.context_mark
        except (YAMLError, ValueError) as error:
            reason, mark = str(error).partition("\n")[0], None
        except RecursionError:
            reason, mark = "nested too deep", None
        raise InputError(self.made_mistake(mark, None, f"this is not YAML: {reason}"))

    def made_mistake(
        self, mark: Any, key: str | None, message: str, got: str | None = None, allowed: str | None = None
    ) -> Mistake:
        if mark is None:
            return Mistake(message, key or None, self.file, got=got, allowed=allowed)
        shown = self.lines[mark.line] if mark.line < len(self.lines) else None
        return Mistake(message, key or None, self.file, mark.line + 1, mark.column + 1, got, allowed, shown)

    def mistake(
        self, node: Any, key: str | None, message: str, got: str | None = None, allowed: str | None = None
    ) -> None:
        mark = node.start_mark if node is not None else None
        self.mistakes.append(self.made_mistake(mark, key, message, got, allowed))

    def mapping(self, node: Any, key: str, known: Iterable[str], required: Iterable[str]) -> dict[str, Any]:
        """Return the nodes of a map by key, without those that say null; say what is unknown, double or missing."""
        if not isinstance(getattr(node, "value", None), list) or not _is_map(node):
            self.mistake(node, key, f"expected a map of {', '.join(known)}", allowed=", ".join(known))
            return {}
        found: dict[str, Any] = {}
        for name_node, value in node.value:
            name = str(name_node.value) if isinstance(name_node.value, str) else "?"
            path = f"{key}.{name}" if key else name
            if name not in known:
                self.mistake(name_node, path, str(unknown_name("key", name, known)), name, ", ".join(known))
            elif name in found:
                self.mistake(name_node, path, "is given twice; keep one", got=name)
            found[name] = value
        found = {name: value for name, value in found.items() if value.tag != _NULL}
        for name in required:
            if name not in found:
                self.mistake(node, f"{key}.{name}" if key else name, "is missing")
        return found

    def sequence(self, node: Any, key: str) -> list[Any]:
        """Return the nodes of a list that has at least one."""
        if node is None:
            return []
        if isinstance(node.value, list) and not _is_map(node) and node.value:
            return list(node.value)
        self.mistake(node, key, "expected a list of at least one layer")
        return []

    def text(self, node: Any, key: str) -> str:
        """Return a scalar as it is written; empty where it is not given."""
        if node is None:
            return ""
        if isinstance(node.value, str) and node.value.strip():
            return str(node.value)
        self.mistake(node, key, "expected a name")
        return ""

    def quantity(self, node: Any, key: str, quantity: str) -> float | None:
        """Return an SI number: written bare, or with a unit."""
        if node is None:
            return None
        written = node.value if isinstance(node.value, str) else None
        try:
            value = float(written) if written is not None else math.nan
        except ValueError:
            return self._with_unit(node, key, quantity)
        if not (math.isfinite(value) and value >= 0):
            shown = written if written is not None else "a list or a map"
            self.mistake(node, key, f"expected a number of at least 0 (got {shown})", got=shown, allowed="0 or more")
        elif key.endswith("parameter_bytes") and value % BYTES_PER_ELEMENT:
            whole = round(value / BYTES_PER_ELEMENT) * BYTES_PER_ELEMENT
            allowed = f"a multiple of {BYTES_PER_ELEMENT} bytes, one for each fp32 parameter"
            self.mistake(
                node, key, f"expected {allowed}, such as {whole} (got {written})", got=written, allowed=allowed
            )
        return value

    def _with_unit(self, node: Any, key: str, quantity: str) -> float | None:
        try:
            return parse(node.value, quantity)
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


def _is_map(node: Any) -> bool:
    return type(node).__name__ == "MappingNode"


def _read_text(path: Path) -> str:
    """Return the text of a file that can be a workload."""
    try:
        if path.is_dir():
            reason = "this is a folder, not a workload file"
        elif path.stat().st_size > MAX_BYTES:
            reason = f"too large for a workload file; at most {MAX_BYTES:,} bytes"
        else:
            return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        reason = "this is not a text file in UTF-8"
    except (OSError, ValueError) as error:
        reason = f"cannot be read: {getattr(error, 'strerror', None) or error}"
    raise InputError(Mistake(reason, file=str(path)))
