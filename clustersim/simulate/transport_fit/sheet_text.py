"""Writes a fitted transport as a sheet, which a scenario can name by its path."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from clustersim.errors import InputError
from clustersim.hardware.sheet import Transport
from clustersim.simulate.transport_fit.constants import FITTED, LIMIT, Fit, FittedConstant

_KEYS = (
    "overhead_s", "efficiency", "buffers", "adds", "host_overhead_s", "add_s_per_byte", "channels", "in_host",
    "connection_bytes_per_s", "receiving_bytes_per_s", "sending_bytes_per_s", "threads", "half_rate_bytes",
)  # fmt: skip


def sheet_text(fit: Fit, name: str, topology: str) -> str:
    """Return the sheet of a fitted transport in YAML, called `name`, measured on the cluster `topology`.

    The source of a fitted value has its logs and its standard error; all other values keep their source.
    """
    after, fitted = fit.after, {constant.key: constant for constant in fit.constants}
    own = name != after.library
    files = ", ".join(Path(source).name for source in fit.sources)
    lines = [
        f"name: {name}",
        f"title: {_quoted(f'{fit.before.title}, as measured in {files}' if own else after.title)}",
    ]
    lines += [f"library: {after.library}"] if own else []
    for key in _KEYS:
        if getattr(after, key) is not None:
            source = _source(fit, fitted.get(key), topology) or after.sources[key]
            lines += _entry(after, key, fitted.get(key), source)
    return "\n".join(lines) + "\n"


def sheet_name(path: Path) -> str:
    """Return the name of a sheet in this file: the stem of the file in kebab-case.

    >>> sheet_name(Path("My_transport v2.yaml"))
    'my-transport-v2'
    """
    name = re.sub(r"[^a-z0-9]+", "-", path.stem.lower()).strip("-")
    if path.suffix not in (".yaml", ".yml") or not name:
        raise InputError(
            f"a transport sheet must be a .yaml file (got '{path}')", got=str(path), allowed="such as mine.yaml"
        )
    return name


def value_text(key: str, value: float) -> str:
    """Return a constant as text for a sheet, with four significant digits.

    >>> value_text("overhead_s", 1.23456e-5), value_text("efficiency", 0.9), value_text("add_s_per_byte", 2.5e-10)
    ('12.35 us', '0.9', '0.25 ns')
    """
    if key == "efficiency":
        return f"{value:.4g}"
    if value == 0.0:
        return "0 s"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= size and key != "add_s_per_byte":
            return f"{float(f'{value / size:.4g}'):g} {unit}"
    return f"{float(f'{value / 1e-9:.4g}'):g} ns"


def error_text(constant: FittedConstant) -> str:
    """Return a constant's standard error as text in the unit of `value_text`, `-` if it has none."""
    if constant.standard_error is None:
        return "-"
    if constant.key == "efficiency":
        return f"{constant.standard_error:.2g}"
    number, _, unit = value_text(constant.key, constant.value).partition(" ")
    return f"{constant.standard_error * float(number) / constant.value:.2g} {unit}"


def _entry(after: Transport, key: str, constant: FittedConstant | None, source: str) -> Iterator[str]:
    value = getattr(after, key)
    text = value_text(key, value) if constant is not None else str(value).lower()
    if key in ("connection_bytes_per_s", "receiving_bytes_per_s", "sending_bytes_per_s"):
        text = f"{value / 1e9:g} GB/s"
    elif key == "half_rate_bytes":
        text = f"{value / 1e6:g} MB"
    yield f"{key}:"
    yield f"  value: {text}"
    yield f"  source: {_quoted(source)}"


def _source(fit: Fit, constant: FittedConstant | None, topology: str) -> str:
    """Return the source of a fitted value; empty for others."""
    if constant is None or constant.state not in (FITTED, LIMIT):
        return ""
    uncertainty = "no uncertainty can be given"
    if constant.standard_error is not None:
        uncertainty = f"standard error {error_text(constant)}"
    figures = f"{len(fit.residuals)} figure{'s' if len(fit.residuals) > 1 else ''}"
    error = f"{fit.median_abs_error:.1%}"
    return (
        f"fitted: {uncertainty}; least squares on the relative errors of {figures} of {', '.join(fit.sources)}, "
        f"simulated on {topology}, which they meet to {error} (median)"
    )


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
