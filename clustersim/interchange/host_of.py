"""The host of a scenario's `topology` for a real one: node by node, or a template that is exactly the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from pydantic import ValidationError

from clustersim.errors import InputError
from clustersim.hardware import load_cpu, load_gpu
from clustersim.hardware.sheet import Gpu
from clustersim.interchange.host_shape import HostDevice, HostJoint, HostShape
from clustersim.interchange.training_cards import with_training_cards
from clustersim.topology.dgx import NvswitchHost
from clustersim.topology.explicit_host import MAX_LINKS
from clustersim.topology.host_plan import HostPlan
from clustersim.topology.host_sheets import HOST_SHEETS, host_sheet
from clustersim.topology.host_table import HOSTS

_TEMPLATES = {
    "p100": ("dgx-1",), "v100": ("dgx-2", "dgx-1"), "v100-32gb": ("dgx-2", "dgx-1"), "a100": ("dgx-a100",),
    "a100-40gb": ("dgx-a100",), "a800": ("dgx-a100",), "h100": ("dgx-h100",), "h100-96gb": ("dgx-h100",),
    "h200": ("dgx-h100",), "h800": ("dgx-h100",), "h20": ("dgx-h100",), "b200": ("dgx-b200",), "b300": ("dgx-b200",),
    "mi250x": ("mi250x",), "mi300x": ("mi300x",), "mi325x": ("mi300x",), "mi355x": ("mi300x",),
    "gh200": ("superchip",), "gb200": ("superchip",), "gb300": ("superchip",),
}  # fmt: skip
"""Templates of machines with a GPU whose boards are joined by NVLink or xGMI."""

_LINKS_OF = {
    "pascal": "nvlink-1", "volta": "nvlink-2", "turing": "nvlink-2", "ampere": "nvlink-3", "hopper": "nvlink-4",
    "blackwell": "nvlink-5",
}  # fmt: skip
_CPU_OF_TIME = dict.fromkeys(("volta", "turing", "ampere"), "xeon-platinum-8168") | dict.fromkeys(
    ("ada", "hopper", "blackwell"), "xeon-platinum-8480c"
)
"""Assumed: Intel's processors of the time of a GPU for PCIe; of those there is no usual machine."""

_MOST_NVLINKS = 18
_BETWEEN_SOCKETS = "xgmi-2"
_XGMI = "48 GB/s"
"""Of a GPU whose sheet has no link: AMD, RCCL source, src/graph/topo.h (commit 0cbce2a7), GFX94X_XGMI_WIDTH."""


@dataclass(frozen=True)
class HostTemplate:
    """A host as in a scenario's `topology`, and notes on what it does not represent of the real one.

    `link` is the rate of its quickest card, where all rates are known, as the network's `link`.
    """

    host: dict[str, Any]
    notes: tuple[str, ...] = field(default=())
    link: str | None = None


def host_of(shape: HostShape, gpu: str) -> HostTemplate:
    """Return the host that a shape is; `gpu` is the name of a sheet, or a file.

    A template is taken only if GPUs, NVLinks, sockets and cards are as in it; all that is not as reported is noted.
    """
    sheet = load_gpu(gpu)
    told, notes = with_training_cards(shape)
    told, more = _with_nvswitches(told if told.sockets_are_known else _at_one_socket(told), sheet)
    if not told.nvlinks_are_known:
        told, more = _with_usual_nvlinks(told, sheet)
    if len(told.joints) > MAX_LINKS:
        got = f"{len(told.joints)} links"
        raise InputError(f"the host has {got} between its devices", got=got, allowed=f"at most {MAX_LINKS}")
    host = _explicit(told, gpu, sheet)
    notes = (*shape.notes, *notes, *more, *_assumed(told, sheet))
    template = _same_template(told, gpu)
    if not told.pcie_is_known and told.num_gpus > 1:
        taken = "one socket, each with its own slot" if template is None else f"PCIe as in {template['template']}"
        notes = (*notes, f"it is not reported where the GPUs are on PCIe: they have {taken}")
    return HostTemplate(template or host, notes, _rate_of_cards(told))


def _rate_of_cards(shape: HostShape) -> str | None:
    rates = [card.bytes_per_s for card in shape.nics if card.bytes_per_s is not None]
    return _gbit(max(rates)) if rates and len(rates) == len(shape.nics) else None


def _gbit(bytes_per_s: float) -> str:
    return f"{bytes_per_s * 8e-9:.9g} Gbit/s"


def _assumed(shape: HostShape, gpu: Gpu) -> Iterator[str]:
    """Yield what had to be assumed, as the report has neither."""
    if shape.gpu is not None and load_gpu(shape.gpu).architecture != gpu.architecture:
        yield f"the GPUs of the file are {load_gpu(shape.gpu).title}, and {gpu.title} is taken for them"
    if len(shape.sheets) > 1:
        named = ", ".join(sorted(str(sheet) for sheet in shape.sheets if sheet is not None))
        others = f"; unknown ones are {gpu.name}" if None in shape.sheets else ""
        yield f"the GPUs are of several kinds ({named}){others}"
    if not shape.sockets_are_known:
        yield (
            "devices of one NUMA node are reported to be a socket apart, as in a virtual machine: the sockets are not "
            "known, and all devices are at one"
        )
    if shape.cpu is None:
        yield f"the processor is not reported: {_cpu(shape, gpu)} is assumed (`cpu` in the host changes it)"
    if _lacks_interconnect(shape, gpu):
        cpu = _cpu(shape, gpu)
        yield f"the sheet of the processor {cpu} has no link between sockets: {_BETWEEN_SOCKETS} is assumed"
    if not shape.nics:
        yield (
            "no network card is reported: a network has one link to each socket. Where the host has cards, add a node "
            "of `kind: nic` for each, and its link, to the host in the file that is written"
        )
    if shape.num_hosts == 1 and (sheets := _domains(gpu.name)):
        hosts = ", ".join(f"{name} with {domain} hosts" for name, domain in sheets.items())
        yield f"hosts with {gpu.title} may share NVSwitches ({hosts}): for that, add `nvlink_domain` to the host"
    kinds = {joint.kind for joint in shape.joints if joint.link is None} & {"nvlink", "xgmi"}
    if kinds and gpu.nvlink is None:
        what = " and ".join(sorted({"nvlink": "NVLink", "xgmi": "xGMI"}[kind] for kind in kinds))
        yield f"the sheet of {gpu.title} has no {what}: {_link_of(kinds, gpu)} is assumed for each link"
    if len(shape.of_kind("socket")) > 2:
        yield f"every two of the {len(shape.of_kind('socket'))} NUMA nodes are joined directly, as NCCL assumes"


def _domains(gpu: str) -> dict[str, int]:
    """Return the host sheets with these GPUs whose NVSwitches join several hosts, and how many."""
    found = {name: host_sheet(name) for name in HOST_SHEETS}
    options = {name: sheet.options for name, sheet in found.items() if sheet is not None}
    joined = {name: int(each.get("nvlink_domain", 1)) for name, each in options.items() if each.get("gpu") == gpu}
    return {name: domain for name, domain in joined.items() if domain > 1}


def _cpu(shape: HostShape, gpu: Gpu) -> str:
    """Return the processor: as reported, or that of the machine in which these GPUs are usual, or of their time."""
    if shape.cpu is not None:
        return shape.cpu
    usual = next((name for name in _TEMPLATES.get(gpu.board, ()) if name in HOSTS), None)
    return _CPU_OF_TIME.get(gpu.architecture, _default_cpu("explicit")) if usual is None else _default_cpu(usual)


def _lacks_interconnect(shape: HostShape, gpu: Gpu) -> bool:
    """Say whether sockets are joined, and neither the file nor the processor's sheet says by what."""
    unknown = any(joint.kind == "sockets" and joint.link is None for joint in shape.joints)
    return unknown and load_cpu(_cpu(shape, gpu)).interconnect is None


def _default_cpu(template: str) -> str:
    return str(HOSTS[template].model_fields["cpu"].default)


def _link_of(kinds: set[str], gpu: Gpu) -> str:
    """Return the link between GPUs: of the sheet, or of its architecture."""
    if gpu.nvlink is not None:
        return gpu.nvlink
    return _XGMI if "xgmi" in kinds else _LINKS_OF.get(gpu.architecture, "nvlink-3")


def _at_one_socket(shape: HostShape) -> HostShape:
    """Return a host with the devices of all sockets at the first one."""
    first, *others = shape.of_kind("socket")
    devices = tuple(device for device in shape.devices if device.name not in others)
    joints = (replace(joint, b=first if joint.b in others else joint.b) for joint in shape.joints)
    return replace(shape, devices=devices, joints=tuple(joint for joint in joints if joint.kind != "sockets"))


def _with_usual_nvlinks(shape: HostShape, gpu: Gpu) -> tuple[HostShape, tuple[str, ...]]:
    """Return a host whose file says nothing of NVLink with all links of a GPU to an NVSwitch, where that is usual."""
    names = _TEMPLATES.get(gpu.board, ())
    usual = next((name for name in names if name in HOSTS and issubclass(HOSTS[name], NvswitchHost)), None)
    if usual is None or shape.num_gpus < 2:
        return shape, () if gpu.nvlink is None else ("the file says nothing of links between GPUs: there are none",)
    joints = (HostJoint(name, "nvswitch0", "nvlink", gpu.num_nvlinks) for name in shape.gpus)
    note = (
        f"the file says nothing of links between GPUs: all {gpu.num_nvlinks} of each are at NVSwitches, as in {usual}"
    )
    devices = (*shape.devices, HostDevice("nvswitch0", "nvswitch"))
    return replace(shape, devices=devices, joints=(*shape.joints, *joints)), (note,)


def _with_nvswitches(shape: HostShape, gpu: Gpu) -> tuple[HostShape, tuple[str, ...]]:
    """Return a host in which GPUs have links to a switch, where they have too many for links to each other.

    `nvidia-smi topo -m` gives all links of a GPU for each pair on one switch.
    """
    most, notes = gpu.num_nvlinks or _MOST_NVLINKS, []
    devices, joints = list(shape.devices), list(shape.joints)
    for group in _joined_groups(shape):
        counts = {shape.between(a, b) for a, b in combinations(group, 2)}
        if len(counts) == 1 and (len(group) - 1) * max(counts) > most:
            switch = f"nvswitch{sum(device.kind == 'nvswitch' for device in devices)}"
            devices.append(HostDevice(switch, "nvswitch"))
            own = set(group)
            link = next(joint.link for joint in joints if joint.kind == "nvlink" and joint.a in own)
            joints = [joint for joint in joints if joint.kind != "nvlink" or not {joint.a, joint.b} <= own]
            joints += [HostJoint(name, switch, "nvlink", max(counts), link) for name in group]
    for name in shape.gpus if gpu.num_nvlinks else ():
        used = sum(joint.count for joint in joints if name in (joint.a, joint.b) and joint.kind in ("nvlink", "xgmi"))
        if used > gpu.num_nvlinks:
            notes.append(f"{name} has {used} links to others, and {gpu.title} {gpu.num_nvlinks}: is it this GPU?")
            break
    return replace(shape, devices=tuple(devices), joints=tuple(joints)), tuple(notes)


def _joined_groups(shape: HostShape) -> Iterator[list[str]]:
    """Yield the groups of GPUs in which each two have NVLinks from one to the other."""
    pairs = {frozenset((joint.a, joint.b)) for joint in shape.joints if joint.kind == "nvlink"}
    left = list(shape.gpus)
    while left:
        group = [left[0], *(name for name in left[1:] if frozenset((left[0], name)) in pairs)]
        if len(group) > 1 and all(frozenset(pair) in pairs for pair in combinations(group, 2)):
            yield group
        left = [name for name in left[1:] if name not in group]


def _explicit(shape: HostShape, gpu: str, sheet: Gpu) -> dict[str, Any]:
    """Return the host node by node."""
    about: dict[str, Any] = {"template": "explicit", "gpu": gpu, "cpu": _cpu(shape, sheet)}
    if shape.gpudirect is not None:
        about["gpudirect"] = shape.gpudirect
    if shape.num_hosts > 1:
        about["nvlink_domain"] = shape.num_hosts
    if shape.memory_bytes is not None:
        about["memory"] = f"{shape.memory_bytes:.0f} B"
    if _lacks_interconnect(shape, sheet):
        about["interconnect"] = _BETWEEN_SOCKETS
    nodes = [_node(device, len(shape.sheets) > 1) for device in shape.devices]
    return {**about, "nodes": nodes, "links": [_link(joint, sheet) for joint in shape.joints]}


def _node(device: HostDevice, has_kinds: bool) -> dict[str, Any]:
    """Return a node; a GPU has its own sheet in a host with several kinds of GPUs."""
    rate = {} if device.bytes_per_s is None else {"link": _gbit(device.bytes_per_s)}
    sheet = {"gpu": device.sheet} if has_kinds and device.sheet is not None else {}
    return {"name": device.name, "kind": device.kind, **sheet, **rate}


def _link(joint: HostJoint, sheet: Gpu) -> dict[str, Any]:
    link = joint.link
    if link is None and joint.kind in ("nvlink", "xgmi"):
        link = _link_of({joint.kind}, sheet)
    count = {} if joint.count == 1 else {"count": joint.count}
    return {"a": joint.a, "b": joint.b, **({} if link is None else {"link": link}), **count}


def _same_template(shape: HostShape, gpu: str) -> dict[str, Any] | None:
    """Return the template that is the same host, None if there is none. The rates of its cards are the network's."""
    if len({card.bytes_per_s for card in shape.nics}) > 1 or len(shape.sheets) > 1:
        return None
    devices = tuple(replace(device, bytes_per_s=None) for device in shape.devices)
    own = _explicit(replace(shape, devices=devices), gpu, load_gpu(gpu))
    about: dict[str, Any] = {"gpu": gpu, "num_gpus": shape.num_gpus}
    about |= {"nics": len(shape.nics)} if shape.nics else {}
    about |= {} if shape.gpudirect is None else {"gpudirect": shape.gpudirect}
    about |= {} if shape.cpu is None else {"cpu": shape.cpu}
    about |= {"nvlink_domain": shape.num_hosts} if shape.num_hosts > 1 else {}
    for name in _TEMPLATES.get(gpu, ()):
        try:
            plan, other = _plan({"template": name, **about}), {**own, "cpu": shape.cpu or _default_cpu(name)}
        except (InputError, ValidationError, KeyError):
            continue  # of fewer GPUs, or of a version of clustersim with other templates
        if _same(plan, _plan(other), shape.pcie_is_known, bool(shape.nics)):
            return {"template": name, **about}
    return None


def _plan(host: dict[str, Any]) -> HostPlan:
    return HOSTS[str(host["template"])].model_validate(host).plan()


def _same(one: HostPlan, other: HostPlan, with_pcie: bool, with_cards: bool) -> bool:
    """Say whether two hosts have the same routes between GPUs, to their memories and to their cards."""
    if len(one.gpus) != len(other.gpus):
        return False
    numbers = range(len(one.gpus))
    pairs = [(a, b) for a in numbers for b in numbers if a != b]
    if not with_pcie:
        return all(_by_nvlink(one, *pair) == _by_nvlink(other, *pair) for pair in pairs)
    return (
        all(_inside(one, *pair) == _inside(other, *pair) for pair in pairs)
        and _groups(one) == _groups(other)
        and (not with_cards or all(_out(one, number) == _out(other, number) for number in numbers))
    )


def _rates(plan: HostPlan, links: list[int]) -> tuple[float, ...]:
    return tuple(round(plan.wires[link].bytes_per_s) for link in links)


def _inside(plan: HostPlan, a: int, b: int) -> tuple[float, ...]:
    return _rates(plan, plan.route_inside(plan.gpus[a], plan.gpus[b]) or [])


def _by_nvlink(plan: HostPlan, a: int, b: int) -> tuple[float, ...]:
    """Return the rates of a route that uses no PCIe, nothing for another one."""
    links = plan.route_inside(plan.gpus[a], plan.gpus[b]) or []
    return _rates(plan, links) if {plan.kinds[plan.dst[link]] for link in links} <= {"gpu", "nvswitch"} else ()


def _out(plan: HostPlan, gpu: int) -> tuple[int, tuple[float, ...]]:
    port, links = plan.route_out(plan.gpus[gpu], 0)
    return port, _rates(plan, links)


def _groups(plan: HostPlan) -> list[tuple[tuple[int, ...], ...]]:
    """Return for each GPU, and each node on its way to the memory of its socket, the GPUs that share this node."""
    ways = [
        [plan.dst[link] for link in plan.path(gpu, memory) or []]
        for gpu, memory in zip(plan.gpus, plan.memory, strict=True)
    ]
    return [tuple(tuple(gpu for gpu, way in enumerate(ways) if node in way) for node in own) for own in ways]
