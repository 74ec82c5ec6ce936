"""NVLink domains of several hosts: their GPUs are on one layer of NVSwitches, as in a rack of GB200 NVL72.

For messages between GPUs the hosts of a domain are one, and NCCL treats them so (multi-node NVLink). Processors, host
memory, PCIe and network cards stay each host's own.
"""

from __future__ import annotations

from collections.abc import Iterator

from clustersim.errors import InputError
from clustersim.topology.host_plan import HostPlan


def in_domains(plan: HostPlan, num_hosts: int) -> Iterator[tuple[HostPlan, int]]:
    """Yield plans and how often each is there: as many full domains as `num_hosts` fill, and the rest in one more."""
    full, rest = divmod(num_hosts, plan.domain)
    if full:
        yield (plan if plan.domain == 1 else joined(plan, plan.domain)), full
    if rest:
        yield (plan if rest == 1 else joined(plan, rest)), 1


def joined(plan: HostPlan, num_hosts: int) -> HostPlan:
    """Return the plan of several such hosts with one NVSwitch instead of each host's own.

    Raise InputError for a host without NVSwitches.
    """
    if plan.kinds.count("nvswitch") != 1:
        message = "an NVLink domain of several hosts needs hosts with NVSwitches"
        raise InputError(message, got="no NVSwitch", allowed="dgx-h100, dgx-b200, superchip", key="host")
    whole = HostPlan(gpudirect=plan.gpudirect, bare=plan.bare, cpu=plan.cpu, domain=plan.domain, num_hosts=num_hosts)
    own_switch = plan.kinds.index("nvswitch")
    switch = whole.node("nvswitch", 0)
    whole.host_of_node.append(-1)
    for host in range(num_hosts):
        nodes = _add_nodes(whole, plan, host, own_switch, switch)
        _add_links(whole, plan, nodes)
    return whole


def check_alone(plan: HostPlan, key: str) -> None:
    """Raise InputError for a host that is joined with others where each host stands alone."""
    if plan.domain > 1:
        message = "the hosts of an explicit network are not joined into an NVLink domain: list the links between them"
        raise InputError(message, got=str(plan.domain), allowed="nvlink_domain: 1", key=f"{key}.nvlink_domain")


def _add_nodes(whole: HostPlan, plan: HostPlan, host: int, own_switch: int, switch: int) -> list[int]:
    """Add a host's nodes, except for its NVSwitch; return the number of each in the whole plan [num_nodes]."""
    nodes = []
    for number, (name, kind) in enumerate(zip(plan.names, plan.kinds, strict=True)):
        if number == own_switch:
            nodes.append(switch)
            continue
        nodes.append(len(whole.names))
        whole.names.append(name)
        whole.kinds.append(kind)
        whole.host_of_node.append(host)
    whole.gpus += [nodes[gpu] for gpu in plan.gpus]
    whole.gpu_sheets += plan.gpu_sheets
    whole.memory += [nodes[node] for node in plan.memory]
    whole.ports += [nodes[port] for port in plan.ports]
    return nodes


def _add_links(whole: HostPlan, plan: HostPlan, nodes: list[int]) -> None:
    """Add a host's links between these nodes of the whole plan, with what is known of them."""
    first = len(whole.src)
    whole.src += [nodes[node] for node in plan.src]
    whole.dst += [nodes[node] for node in plan.dst]
    whole.wires += plan.wires
    whole.adders |= {nodes[node]: first + link for node, link in plan.adders.items()}
    whole.staging_links |= {nodes[gpu]: [first + link for link in links] for gpu, links in plan.staging_links.items()}
    whole.shared_staging_links |= {nodes[node]: first + link for node, link in plan.shared_staging_links.items()}
    whole.peer_links |= {first + link: first + peer for link, peer in plan.peer_links.items()}
