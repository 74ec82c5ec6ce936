"""Writes a model as a workload file; reading the file gives the same layers.

The text is written line by line, and not by a YAML library, for speed: a layer is a line, and a model may have a
thousand layers.
"""

from __future__ import annotations

import json
import re
from itertools import accumulate
from pathlib import Path

from clustersim.errors import InputError
from clustersim.model.layer import Layer, Model
from clustersim.model.layer_schema import backward_flop, default_inputs
from clustersim.model.workload_file import BYTES_PER_ELEMENT, DEFAULT_OP
from clustersim.reading import LIMITS
from clustersim.results.files import write_atomically

_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./()-]+)*")
_WORDS = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}  # YAML reads these as other types


def workload_text(model: Model) -> str:
    """Return a workload file; values equal to their defaults are omitted.

    >>> layer = Layer("fc", "fully-connected", 8.0, 0.0, 8.0, 4, 2.0, 2.0)
    >>> print(workload_text(Model("net", "net", (layer,))).splitlines()[-1])
      - {name: fc, op: fully-connected, flop: 8, parameter_bytes: 16, activation_bytes: 8}
    """
    head = {"name": model.name, "sample": model.sample, "source": model.source}
    lines = [f"{key}: {_scalar(value)}" for key, value in head.items() if value]
    if model.weight_share != 1:
        lines.append(f"weight_share: {_number(model.weight_share)}")
    if model.tokens is not None:
        lines.append(f"tokens: {model.tokens}")
    read = default_inputs([layer.output_elements for layer in model.layers])
    trained = [0, *accumulate(layer.num_parameters for layer in model.layers)]
    rows = [
        _row(layer, read[index], backward_flop(layer.flop, layer.num_parameters > 0, trained[index] > 0))
        for index, layer in enumerate(model.layers)
    ]
    return "\n".join([*lines, "layers:", *(f"  - {row}" for row in rows)]) + "\n"


def write_workload_file(model: Model, path: str | Path) -> Path:
    """Write a workload file atomically; it must end in `.yaml`, by which a scenario recognizes it."""
    if Path(path).suffix not in (".yaml", ".yml"):
        raise InputError(
            f"a workload file ends in .yaml (got '{path}')", got=str(path), allowed="a name that ends in .yaml"
        )
    text = workload_text(model)
    if len(text.encode()) > LIMITS.num_bytes:
        most = f"{LIMITS.num_bytes / 2**20:g} MiB"
        raise InputError(
            f"{len(model.layers):,} layers make a file of {len(text) / 1e6:.1f} MB; the limit is {most}. "
            "Import the model without unrolled loops, or fewer of its layers",
            got=f"{len(model.layers):,} layers",
            allowed=most,
        )
    return write_atomically(path, text)


def _row(layer: Layer, input_elements: float, backward: tuple[float, float]) -> str:
    parts = {"name": _scalar(layer.name)}
    if layer.op != DEFAULT_OP:
        parts["op"] = _scalar(layer.op)
    parts["flop"] = _number(layer.flop)
    sizes = {"parameter_bytes": layer.num_parameters, "activation_bytes": layer.output_elements}
    parts |= {key: _number(BYTES_PER_ELEMENT * elements) for key, elements in sizes.items() if elements}
    if layer.input_elements != input_elements:
        parts["input_bytes"] = _number(BYTES_PER_ELEMENT * layer.input_elements)
    if layer.kept_bytes is not None:
        parts["kept_bytes"] = _number(layer.kept_bytes)
    for key, flop, usual in zip(
        ("backward_data_flop", "backward_weights_flop"),
        (layer.flop_backward_data, layer.flop_backward_weights),
        backward,
        strict=True,
    ):
        if flop != usual:
            parts[key] = _number(flop)
    if layer.shape:
        parts["shape"] = _map({key: str(size) for key, size in layer.shape.items()})
    for key, name in (("branch", layer.branch), ("weights_of", layer.weights_of)):
        if name:
            parts[key] = _scalar(name)
    return _map(parts)


def _map(parts: dict[str, str]) -> str:
    return "{" + ", ".join(f"{key}: {value}" for key, value in parts.items()) + "}"


def _number(value: float) -> str:
    """Return the shortest text of a number: whole ones without a point.

    >>> _number(1e6), _number(0.1)
    ('1000000', '0.1')
    """
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _scalar(text: str) -> str:
    """Return a text as YAML, in quotes where YAML would read it as another type."""
    plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS
    return text if plain else json.dumps(text, ensure_ascii=False)
