"""Names of links, GPUs and processors in a scenario, and their numbers."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np
from pydantic import AfterValidator, Field, WithJsonSchema

from clustersim.errors import InputError, Mistake
from clustersim.hardware import load_cpu, load_gpu, load_link
from clustersim.hardware.gpu_name import limited_name
from clustersim.spec import Spec
from clustersim.units import Power, parse

_STARTS_AS_NUMBER = re.compile(r"\s*[+-]?\.?[0-9]")


class Cable(NamedTuple):
    """One direction of a link: its rate, its delay and its class in reports."""

    bytes_per_s: float
    latency_s: float
    kind: str


def _is_rate(link: str) -> bool:
    return _STARTS_AS_NUMBER.match(link) is not None and not link.endswith(".yaml")


def _check_link(link: str) -> str:
    if not _is_rate(link):
        try:
            load_link(link)
        except InputError as error:
            raise InputError([_or_a_rate(each) for each in error.mistakes]) from None
    elif _rate(link) == 0:
        raise InputError(f"a link's rate must be above zero (got '{link}')", got=link, allowed="a rate above zero")
    return link


def _rate(link: str) -> float:
    try:
        return parse(link, "rate")
    except InputError as error:
        name = "a link's name: `clustersim list links`"
        raise InputError([replace(each, message=f"{each.message}, or {name}") for each in error.mistakes]) from None


def _or_a_rate(mistake: Mistake) -> Mistake:
    """Return a mistake about a name that also says that a rate is allowed; one about a link's file as it is."""
    if mistake.file is not None:
        return mistake
    rate = "a rate, such as '100 Gbit/s'"
    return replace(mistake, message=f"{mistake.message}, or {rate}", allowed=f"{mistake.allowed}, or {rate}")


class LimitedGpu(Spec):
    """A GPU under a limit of power below its board's own."""

    gpu: str = Field(description="the GPU's sheet, such as `h100`")
    power_limit: Power = Field(gt=0, description="limit of power, such as `500 W`, as `nvidia-smi -pl` sets it")


def _check_gpu(given: str | LimitedGpu) -> str:
    """Return the name of a GPU that exists: a sheet's, or `NAME at 500 W` with a limit of power."""
    if isinstance(given, LimitedGpu):
        try:
            load_gpu(given.gpu)
        except InputError as error:
            raise InputError([replace(each, key="gpu") for each in error.mistakes]) from None
        given = limited_name(given.gpu, given.power_limit)
    load_gpu(given)
    return given


def _check_cpu(name: str) -> str:
    load_cpu(name)
    return name


LinkName = Annotated[
    str,
    AfterValidator(_check_link),
    WithJsonSchema({"type": "string", "examples": ["infiniband-fdr", "100 Gbit/s"]}),
]
"""The name of a link's sheet, or the rate of one direction."""

if TYPE_CHECKING:
    GpuName = str
else:
    GpuName = Annotated[str | LimitedGpu, AfterValidator(_check_gpu)]
"""The name of a GPU's sheet, or `{gpu: h100, power_limit: 500 W}`, which is kept as the name `h100 at 500 W`."""

CpuName = Annotated[str, AfterValidator(_check_cpu)]
"""The name of a processor's sheet."""


def wire(link: str, role: str, hop_s: float | None = None) -> Cable:
    """Return the numbers of a link, given by its sheet's name or by its rate.

    `hop_s` overrides the sheet's delay; a link given by its rate has no delay. Its class is the sheet's name, or `role`
    (`access`, `torus-x`) without a sheet.
    """
    if _is_rate(link):
        return Cable(parse(link, "rate"), hop_s or 0.0, role)
    sheet = load_link(link)
    return Cable(sheet.bytes_per_s, sheet.latency_s if hop_s is None else hop_s, sheet.name)


class WireColumns:
    """Collects links of one class at a time, as columns: `src` and `dst` are arrays of node numbers."""

    def __init__(self) -> None:
        self._src: list[np.ndarray] = []
        self._dst: list[np.ndarray] = []
        self._bytes_per_s: list[np.ndarray] = []
        self._latency_s: list[np.ndarray] = []
        self.kind: list[str] = []

    def __len__(self) -> int:
        return len(self.kind)

    def add(self, src: np.ndarray, dst: np.ndarray, wire: Cable) -> int:
        """Add one link from each of `src` to each of `dst` and return the number of the first."""
        first = len(self.kind)
        self._src.append(src)
        self._dst.append(dst)
        self._bytes_per_s.append(np.full(len(src), wire.bytes_per_s))
        self._latency_s.append(np.full(len(src), wire.latency_s))
        self.kind += [wire.kind] * len(src)
        return first

    @property
    def src(self) -> np.ndarray:
        return _join(self._src, np.int64)

    @property
    def dst(self) -> np.ndarray:
        return _join(self._dst, np.int64)

    @property
    def bytes_per_s(self) -> np.ndarray:
        return _join(self._bytes_per_s, np.float64)

    @property
    def latency_s(self) -> np.ndarray:
        return _join(self._latency_s, np.float64)


def _join(parts: list[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate(parts).astype(dtype, copy=False) if parts else np.zeros(0, dtype)
