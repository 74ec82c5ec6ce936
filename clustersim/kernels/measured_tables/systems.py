"""Which measured tables hold for a GPU: `systems.yaml` as objects, and the choice of a scenario."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from clustersim.errors import InputError
from clustersim.hardware.sheet import Gpu
from clustersim.kernels.measured_tables import installed
from clustersim.kernels.measured_tables.installed import Missing, Tables
from clustersim.model.precision import Precision

Kernels = Literal["auto", "law", "measured"]
KernelSource = Literal["law", "measured"]

SYSTEMS_FILE = Path(__file__).with_name("systems.yaml")


@dataclass(frozen=True)
class AttentionTable:
    """The library whose rows of fused attention are taken, and the values of `software.attention` that it is."""

    library: str
    kernels: tuple[str, ...]


@dataclass(frozen=True)
class ExpertTable:
    """The library whose rows of experts are taken, and the kernel among them."""

    library: str
    kernel: str


@dataclass(frozen=True, eq=False)
class System:
    """A GPU as the tables name it; `products` and `experts` have a library or table by number format."""

    name: str
    title: str
    gpus: tuple[str, ...]
    power_w: float
    products: Mapping[str, str] = field(default_factory=dict)
    experts: Mapping[str, ExpertTable] = field(default_factory=dict)
    attention: AttentionTable | None = None
    encoder_attention: AttentionTable | None = None


@lru_cache(maxsize=1)
def systems() -> Mapping[str, System]:
    """Return every system of `systems.yaml`."""
    from ruamel.yaml import YAML

    document = YAML(typ="safe", pure=True).load(SYSTEMS_FILE.read_text(encoding="utf-8"))
    return {name: _system(name, entry) for name, entry in document["systems"].items()}


def _system(name: str, entry: Mapping[str, Any]) -> System:
    def attention(kind: str) -> AttentionTable | None:
        return AttentionTable(entry[kind]["library"], tuple(entry[kind]["kernels"])) if kind in entry else None

    return System(
        name=name,
        title=entry["title"],
        gpus=tuple(entry["gpus"]),
        power_w=entry["power_w"],
        products=entry["products"],
        experts={dtype: ExpertTable(**table) for dtype, table in entry.get("experts", {}).items()},
        attention=attention("attention"),
        encoder_attention=attention("encoder_attention"),
    )


def system_of(gpu: Gpu) -> System | None:
    """Return the system whose tables hold for a GPU: the name is listed and the power limit is the same."""
    for system in systems().values():
        if gpu.name in system.gpus and gpu.power_w in (None, system.power_w):
            return system
    return None


def format_of(number: Precision, in_fp8: bool = False) -> str | None:
    """Return the tables' name of a number format; None where they have none.

    fp16 has the times of bfloat16, which tensor cores multiply at the same rate.
    """
    if in_fp8:
        return "fp8"
    return "bfloat16" if number.units == "tensor" and number.operand_bytes == 2.0 else None


def chosen_kernels(asked: Kernels, gpu: Gpu, number: Precision) -> KernelSource:
    """Return where kernel times come from on a GPU, given a scenario's `compute.kernels`.

    `auto` takes the tables where they are installed and hold for the GPU. `measured` refuses to do without.
    """
    if asked == "law" or (asked == "auto" and installed.find_tables() is None):
        return "law"
    system, dtype = system_of(gpu), format_of(number)
    has_table = system is not None and dtype in system.products
    if asked == "auto":
        return "measured" if has_table else "law"
    found = installed.search_tables()
    if isinstance(found, Missing):
        raise InputError(f"{found.reason}, or write law", got=asked, allowed="auto, law")
    if not has_table:
        known = ", ".join(name for each in systems().values() for name in each.gpus)
        lacks = f"{gpu.title} ({gpu.name}) at its power limit" if system is None else f"the precision {number.name}"
        raise InputError(
            f"there is no measured table for {lacks}; there are some for {known}, in 16 bits and FP8; "
            "write auto or law",
            got=asked,
            allowed="auto, law",
        )
    return "measured"


def tables_in_use() -> Tables:
    """Return the installed tables; an error where there are none, which `chosen_kernels` has excluded."""
    found = installed.find_tables()
    assert found is not None
    return found
