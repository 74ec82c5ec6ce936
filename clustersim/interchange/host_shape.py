"""The internal topology of one real host as tools describe it, and the nearest host template of clustersim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clustersim.hardware import load_gpu, load_link

_NVSWITCH_TEMPLATES = {
    "v100": "dgx-2", "a100": "dgx-a100", "h100": "dgx-h100", "h20": "dgx-h100", "b200": "dgx-b200", "b300": "dgx-b200"
}  # fmt: skip
_MOST_GPUS = {"dgx-2": 16}
_ONE_SWITCH, _SOCKETS = ("PIX", "PXB"), ("SYS",)


@dataclass(frozen=True)
class HostShape:
    """Connections between the GPUs of a host.

    `nvlinks` [num_gpus][num_gpus] counts the NVLinks between two GPUs (through NVSwitches: all links of a GPU, for
    every pair) and `pcie` is their distance otherwise: PIX or PXB behind PCIe switches, PHB or NODE on one
    socket, SYS across sockets. `nic_bytes_per_s` has the rate of each network card where it is known, and `gpudirect`
    is whether cards read GPU memory, None if unknown.
    """

    num_gpus: int
    nvlinks: Sequence[Sequence[int]]
    pcie: Sequence[Sequence[str]]
    num_nics: int = 0
    nic_bytes_per_s: tuple[float, ...] = ()
    gpudirect: bool | None = None
    switched: bool | None = None
    sockets: tuple[int, ...] | None = None


@dataclass(frozen=True)
class HostTemplate:
    """A host as in a scenario's `topology`, and notes on what it does not represent of the real one."""

    host: dict[str, Any]
    notes: tuple[str, ...] = field(default=())


def nearest_template(shape: HostShape, gpu: str) -> HostTemplate:
    """Return the template that is nearest to a host with these GPUs; `gpu` is the name of a sheet, or a file.

    NVLink with the same links between all pairs is modelled as one switch; the mesh of a DGX-1 is known. NVLinks
    between only some GPUs are left out, and PCIe and sockets modelled instead.
    """
    sheet = load_gpu(gpu)
    pairs = {shape.nvlinks[a][b] for a in range(shape.num_gpus) for b in range(shape.num_gpus) if a != b}
    about: dict[str, Any] = {"gpu": gpu, "num_gpus": shape.num_gpus, **_nics(shape)}
    if shape.num_gpus > 1 and sheet.nvlink is not None and pairs != {0}:
        if len(pairs) == 1:
            return _all_alike(shape, about, pairs.pop())
        if shape.num_gpus == 8 and pairs <= {0, 1, 2} and 0 in pairs:
            return HostTemplate({"template": "dgx-1", **about})
    lost = [] if pairs <= {0} else [f"NVLinks {_counts(pairs)} to a pair of GPUs follow no template and are left out"]
    return _on_pcie(shape, about, lost)


def _nics(shape: HostShape) -> dict[str, Any]:
    known: dict[str, Any] = {"nics": shape.num_nics} if shape.num_nics else {}
    return known if shape.gpudirect is None else {**known, "gpudirect": shape.gpudirect}


def _all_alike(shape: HostShape, about: Mapping[str, Any], count: int) -> HostTemplate:
    """Return GPUs on NVSwitch; a mesh of direct links is modelled as a switch with all links that a GPU uses."""
    sheet = load_gpu(str(about["gpu"]))
    template = _switch_template(sheet.name, shape.num_gpus)
    if template is None:
        return _on_pcie(shape, about, [f"NVLink among {shape.num_gpus} {sheet.title} follows no template, is left out"])
    used = count if shape.switched or count == sheet.num_nvlinks else (shape.num_gpus - 1) * count
    if used == sheet.num_nvlinks:
        return HostTemplate({"template": template, **about})
    assert sheet.nvlink is not None  # checked by `nearest_template`
    rate = load_link(sheet.nvlink).bytes_per_s * used / sheet.num_nvlinks
    note = (
        f"{count} NVLinks join every pair of GPUs directly; they are modelled as one switch with {used} of a GPU's "
        f"{sheet.num_nvlinks} links"
    )
    return HostTemplate({"template": template, **about, "nvlink": f"{rate / 1e9:.6g} GB/s"}, (note,))


def _switch_template(gpu: str, num_gpus: int) -> str | None:
    """Return the template of a machine with these GPUs on NVSwitch, None where it has fewer."""
    template = next((_NVSWITCH_TEMPLATES[name] for name in _NVSWITCH_TEMPLATES if gpu.startswith(name)), None)
    return template if template is not None and num_gpus <= _MOST_GPUS.get(template, 8) else None


def _on_pcie(shape: HostShape, about: Mapping[str, Any], notes: list[str]) -> HostTemplate:
    """Return sockets and PCIe switches; GPUs are assumed to be distributed evenly and in order."""
    sockets = list(shape.sockets) if shape.sockets else _groups(shape, lambda code: code not in _SOCKETS)
    switches = _groups(shape, lambda code: code in _ONE_SWITCH)
    num_sockets, num_switches = len(set(sockets)), len(set(switches))
    behind = num_switches < shape.num_gpus
    if _uneven(sockets) or (behind and _uneven(switches)):
        notes = [*notes, "GPUs are unevenly distributed on sockets or PCIe switches; they are modelled evenly"]
    if num_sockets > 2:
        notes = [*notes, f"{num_sockets} groups of GPUs are a socket apart from each other; they are modelled as two"]
    if num_sockets > 1:
        per_socket = max(1, min(8, num_switches // num_sockets)) if behind else 0
        return HostTemplate({"template": "dual-socket", **about, "plx_per_socket": per_socket}, tuple(notes))
    if behind:
        return HostTemplate({"template": "single-root", **about, "num_switches": min(16, num_switches)}, tuple(notes))
    return HostTemplate({"template": "single-socket", **about}, tuple(notes))


def _groups(shape: HostShape, together: Any) -> list[int]:
    """Return a group number for each GPU; a GPU belongs to a group if it is `together` with the group's first GPU."""
    firsts: list[int] = []
    found = []
    for gpu in range(shape.num_gpus):
        number = next((n for n, first in enumerate(firsts) if together(shape.pcie[gpu][first])), len(firsts))
        if number == len(firsts):
            firsts.append(gpu)
        found.append(number)
    return found


def _uneven(groups: Sequence[int]) -> bool:
    sizes = {groups.count(group) for group in groups}
    return len(sizes) > 1 or list(groups) != sorted(groups)


def _counts(pairs: set[int]) -> str:
    return " or ".join(str(count) for count in sorted(pairs))
