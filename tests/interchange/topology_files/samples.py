"""Descriptions of networks in the formats of other tools, written for the tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product

Cable = tuple[str, int, str, int, str]
"""A cable of InfiniBand: GUID and port of both ends, and its width and speed."""


def ibnetdiscover(cables: Iterable[Cable], descriptions: dict[str, str]) -> str:
    """Return what ibnetdiscover prints: a block for each node, with a line for each of its ports."""
    ports: dict[str, list[str]] = {guid: [] for guid in descriptions}
    for a, a_port, b, b_port, speed in cables:
        for here, port, there, other in ((a, a_port, b, b_port), (b, b_port, a, a_port)):
            its_guid = f"({here[2:]}) " if here.startswith("H") else ""
            peer = f"({there[2:]}) " if there.startswith("H") else ""
            ports[here].append(
                f'[{port}]{its_guid}\t"{there}"[{other}]{peer}\t\t# "{descriptions[there]}" lid 5 {speed}'
            )
    blocks = ["#\n# Topology file: generated on Mon Dec 18 12:34:08 2023\n#\n"]
    for guid, lines in ports.items():
        kind = "Switch\t41" if guid.startswith("S") else "Ca\t1"
        what = "enhanced port 0 lid 1 lmc 0" if guid.startswith("S") else ""
        blocks.append(f'vendid=0x2c9\ndevid=0xd2f0\n{kind} "{guid}"\t\t# "{descriptions[guid]}" {what}')
        blocks += [*lines, ""]
    return "\n".join(blocks)


def two_tiers(
    num_leaves: int = 2,
    hosts_per_leaf: int = 4,
    num_spines: int = 2,
    cards: int = 1,
    speed: str = "4xHDR",
    card: Callable[[int, int], str] = lambda host, card: f"node{host:03d} mlx5_{card}",
    rails: bool = False,
) -> str:
    """Return ibnetdiscover of leaves under spines; with `rails` card i of a host is on leaf i."""
    leaves = [f"S-b8599f0300{leaf:06x}" for leaf in range(num_leaves)]
    spines = [f"S-b8599f03ff{spine:06x}" for spine in range(num_spines)]
    names = {guid: f"MF0;leaf{number:02d}:MQM8700/U1" for number, guid in enumerate(leaves)}
    names |= {guid: f"MF0;spine{number:02d}:MQM8700/U1" for number, guid in enumerate(spines)}
    cables: list[Cable] = []
    used = dict.fromkeys([*leaves, *spines], 0)

    def port(switch: str) -> int:
        used[switch] += 1
        return used[switch]

    num_hosts = hosts_per_leaf if rails else num_leaves * hosts_per_leaf
    for host, number in product(range(num_hosts), range(cards)):
        guid = f"H-0c42a1030{number:x}{host:06x}"
        names[guid] = card(host, number)
        leaf = leaves[number if rails else host // hosts_per_leaf]
        cables.append((leaf, port(leaf), guid, 1, speed))
    for leaf, spine in product(leaves, spines):
        cables.append((leaf, port(leaf), spine, port(spine), speed))
    return ibnetdiscover(cables, names)


SLURM_TREE = """\
# two racks
SwitchName=s0 Nodes=node[001-008]
SwitchName=s1 Nodes=node[009-014,017-018] LinkSpeed=400
SwitchName=top Switches=s[0-1]
"""

SLURM_BLOCKS = """\
BlockName=b1 Nodes=n[01-18]
BlockName=b2 Nodes=n[19-36]
BlockSizes=18,36
"""

ASTRA_SWITCH = """\
topology: [ Switch ]
npus_count: [ 8 ]  # number of NPUs
bandwidth: [ 50.0 ]  # GB/s
latency: [ 500.0 ]  # ns
"""

ASTRA_THREE = """\
topology: [ Ring, FullyConnected, Switch ]
npus_count: [ 2, 8, 4 ]
bandwidth: [ 200.0, 100.0, 50.0 ]
latency: [ 50.0, 500.0, 2000.0 ]
"""

_HEAD = """\
<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <zone id="world" routing="Full">
"""
_TAIL = "  </zone>\n</platform>\n"


def simgrid_cluster(attributes: str, num_hosts: int = 16) -> str:
    """Return a platform of one cluster."""
    return (
        f'{_HEAD}<cluster id="bob" prefix="node-" radical="0-{num_hosts - 1}" suffix=".lab" speed="1Gf" bw="125MBps" '
        f'lat="50us" {attributes}/>\n{_TAIL}'
    )


SIMGRID_FAT_TREE = simgrid_cluster('topology="FAT_TREE" topo_parameters="2;4,4;1,2;1,2" loopback_bw="1GBps"')

SIMGRID_HOSTS = f"""\
{_HEAD}<host id="A" speed="1Gf"/><host id="B" speed="1Gf"/><host id="C" speed="1Gf"/>
    <link id="l1" bandwidth="1Gbps" latency="50us"/>
    <link id="l2" bandwidth="1Gbps" latency="50us" sharing_policy="SPLITDUPLEX"/>
    <link id="l3" bandwidth="10Gbps" latency="1ms"/>
    <route src="A" dst="B"><link_ctn id="l1"/><link_ctn id="l2" direction="DOWN"/></route>
    <route src="A" dst="C"><link_ctn id="l1"/><link_ctn id="l3"/></route>
    <route src="B" dst="C"><link_ctn id="l2" direction="UP"/><link_ctn id="l3"/></route>
{_TAIL}"""

INFRAGRAPH = """\
name: clos
devices:
  - name: server
    components:
      - {name: xpu, count: 4, choice: xpu}
      - {name: nic, count: 2, choice: nic}
      - {name: cpu, count: 2, choice: cpu}
      - {name: pciesw, count: 2, choice: switch}
      - {name: nvsw, count: 2, choice: switch}
      - {name: slot, count: 2, choice: custom, custom: {type: pcie_slot}}
      - {name: bmc, count: 1, choice: custom, custom: {type: mgmt}}
    links:
      - {name: pcie}
      - {name: nvlink}
      - {name: upi, physical: {bandwidth: {gigabytes_per_second: 20}}}
    edges:
      - {ep1: {component: cpu}, ep2: {component: cpu}, scheme: many2many, link: upi}
      - {ep1: {component: pciesw}, ep2: {component: cpu}, scheme: one2one, link: pcie}
      - {ep1: {component: "xpu[0:2]"}, ep2: {component: "pciesw[0]"}, scheme: many2many, link: pcie}
      - {ep1: {component: "xpu[2:4]"}, ep2: {component: "pciesw[1]"}, scheme: many2many, link: pcie}
      - {ep1: {component: nic}, ep2: {component: slot}, scheme: one2one, link: pcie}
      - {ep1: {component: slot}, ep2: {component: pciesw}, scheme: one2one, link: pcie}
      - {ep1: {component: xpu}, ep2: {component: nvsw}, scheme: many2many, link: nvlink}
      - {ep1: {component: nvsw}, ep2: {component: "pciesw[0]"}, scheme: many2many, link: pcie}
      - {ep1: {component: bmc}, ep2: {component: "cpu[0]"}, scheme: one2one, link: pcie}
  - name: switch
    components: [{name: port, count: 16, choice: port}]
    links: []
    edges: []
links:
  - {name: leaf-link, physical: {bandwidth: {gigabits_per_second: 100}, latency: {us: 1}}}
  - {name: spine-link, physical: {bandwidth: {gigabits_per_second: 400}, latency: {us: 1}}}
instances:
  - {name: host, device: server, count: 4}
  - {name: leafsw, device: switch, count: 2}
  - {name: spinesw, device: switch, count: 1}
edges:
  - ep1: {instance: "host[0:2]", component: nic}
    ep2: {instance: "leafsw[0]", component: "port[0:4]"}
    scheme: one2one
    link: leaf-link
  - ep1: {instance: "host[2:4]", component: nic}
    ep2: {instance: "leafsw[1]", component: "port[0:4]"}
    scheme: one2one
    link: leaf-link
  - ep1: {instance: leafsw, component: "port[8]"}
    ep2: {instance: spinesw, component: "port[0:2]"}
    scheme: one2one
    link: spine-link
"""

MATRIX = """\
        GPU0    GPU1    NIC0    NIC1    CPU Affinity
GPU0     X      NV12    PXB     SYS     0-31
GPU1    NV12     X      SYS     PXB     32-63
NIC0    PXB     SYS      X      SYS
NIC1    SYS     PXB     SYS      X

Legend:

  X    = Self
"""
