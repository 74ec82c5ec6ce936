"""A cluster of network namespaces: one for each host and router, cables between them, and a rate on every link.

Created inside the namespaces of `sandbox`. A link is shaped at its sending end: at a host's card, and at every port of
a router. Addresses, routes and neighbours are configured in advance, so there is no ARP or route discovery.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from validate.lab.layout import Layout
from validate.lab.shaping import packet_bytes, shaped

SEND_BUFFER_BYTES = 131072
"""Of every connection. With the default of 4 MiB, the send call of a small message returns immediately."""

_SYSCTL = {
    "net.ipv4.ip_forward": "1",
    "net.ipv4.conf.all.rp_filter": "0",
    "net.ipv4.conf.default.rp_filter": "0",
    "net.ipv4.conf.all.send_redirects": "0",
    "net.ipv4.conf.default.send_redirects": "0",
    "net.ipv4.tcp_slow_start_after_idle": "0",
    "net.ipv4.tcp_no_metrics_save": "1",
    "net.ipv4.tcp_wmem": f"4096 16384 {SEND_BUFFER_BYTES}",
    "net.ipv4.tcp_congestion_control": "reno",
}
_OPTIONAL = {"net.ipv6.conf.all.disable_ipv6": "1", "net.ipv6.conf.default.disable_ipv6": "1"}
_CLONE_NEWNET = 0x40000000


@dataclass(frozen=True)
class Port:
    """One end of a cable: its namespace and device, and those of the other end."""

    space: str
    device: str
    peer_space: str
    peer_device: str


class Cluster:
    """A running cluster; a context manager that removes it at the end."""

    def __init__(self, layout: Layout, megabits_per_s: float, queues: str = "pair"):
        self.layout, self.megabits_per_s, self.queues = layout, megabits_per_s, queues
        self.hosts = [f"h{host}" for host in range(layout.num_hosts)]
        self.routers = [f"r{router}" for router in range(layout.num_routers)]
        self._routes = {
            (src, dst): self._devices(src, dst)
            for src in range(layout.num_hosts)
            for dst in range(layout.num_hosts)
            if src != dst
        }

    def address(self, host: int) -> str:
        """Return the IP address of a host."""
        return f"10.77.{host >> 8}.{(host & 255) + 1}"

    def __enter__(self) -> Self:
        try:
            self._make()
        except BaseException:
            self._take_down()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._take_down()

    def ports(self) -> Iterator[Port]:
        """Yield every port: both ends of every cable."""
        for host, space in enumerate(self.hosts):
            router = self.routers[self.layout.router(host)]
            yield Port(space, "eth0", router, f"to-{space}")
            yield Port(router, f"to-{space}", space, "eth0")
        for a, b in self.layout.cables:
            one, other = self.routers[a], self.routers[b]
            yield Port(one, f"to-{other}", other, f"to-{one}")
            yield Port(other, f"to-{one}", one, f"to-{other}")

    def sent_bytes(self) -> dict[tuple[str, str], int]:
        """Return the bytes sent through each (namespace, device), headers included."""
        sent = {}
        for port in self.ports():
            shown = _run(["tc", "-n", port.space, "-s", "qdisc", "show", "dev", port.device]).split()
            sent[port.space, port.device] = int(shown[shown.index("Sent") + 1])
        return sent

    def _devices(self, src: int, dst: int) -> list[tuple[str, str]]:
        """Return the (namespace, device) pairs on the route from host to host, in order."""
        passed = [self.routers[router] for router in self.layout.routers_between(src, dst)]
        following = [f"to-{name}" for name in [*passed[1:], self.hosts[dst]]]
        return [(self.hosts[src], "eth0"), *zip(passed, following, strict=True)]

    def _make(self) -> None:
        spaces = [*self.hosts, *self.routers]
        _batch(["ip"], [f"netns add {space}" for space in spaces])
        for space in spaces:
            in_space(space, write_sysctl)
        ports = list(self.ports())
        lines: dict[str, list[str]] = {space: ["link set lo up"] for space in spaces}
        for port in ports:
            if port.space < port.peer_space:
                lines[port.space].append(
                    f"link add {port.device} address {_mac(port)} type veth peer name {port.peer_device} "
                    f"address {_mac(_other_end(port))} netns {port.peer_space}"
                )
        for space in spaces:
            _batch(["ip", "-n", space], lines[space])
        for space in spaces:
            own = [port for port in ports if port.space == space]
            _batch(["ip", "-n", space], [line for port in own for line in self._port_lines(port)])
            _batch(["ip", "-n", space], self._route_lines(space, own))
            _batch(["tc", "-n", space], [line for port in own for line in self._shape_lines(port)])

    def _port_lines(self, port: Port) -> list[str]:
        lines = [
            f"link set {port.device} gso_max_size {packet_bytes(self.megabits_per_s)}",
            f"link set {port.device} up",
        ]
        if port.device == "eth0":
            lines.append(f"addr add {self.address(self.hosts.index(port.space))}/32 dev eth0")
        return lines

    def _route_lines(self, space: str, own: Sequence[Port]) -> list[str]:
        """Return the commands for the routes and neighbours from a namespace to every host."""
        macs = {port.device: _mac(_other_end(port)) for port in own}
        devices = {dst: device for (_, dst), route in self._routes.items() for where, device in route if where == space}
        source = f"src {self.address(self.hosts.index(space))}" if space in self.hosts else ""
        lines = []
        for dst, device in sorted(devices.items()):
            lines.append(f"route replace {self.address(dst)}/32 dev {device} {source}")
            lines.append(f"neigh replace {self.address(dst)} lladdr {macs[device]} dev {device} nud permanent")
        return lines

    def _shape_lines(self, port: Port) -> list[str]:
        pairs = [
            (self.address(src), self.address(dst))
            for (src, dst), route in self._routes.items()
            if (port.space, port.device) in route
        ]
        return shaped(port.device, self.megabits_per_s, pairs, self.queues)

    def _take_down(self) -> None:
        known = set(os.listdir("/run/netns"))
        _batch(["ip"], [f"netns del {space}" for space in (*self.hosts, *self.routers) if space in known])


def _other_end(port: Port) -> Port:
    return Port(port.peer_space, port.peer_device, port.space, port.device)


def _mac(port: Port) -> str:
    """Return the unique hardware address of a port: 02:77, then the numbers of its namespace and of its other end."""

    def pair(space: str) -> str:
        number = int(space[1:]) + (0x8000 if space[0] == "r" else 0)
        return f"{number >> 8:02x}:{number & 255:02x}"

    return f"02:77:{pair(port.space)}:{pair(port.peer_space)}"


def write_sysctl() -> None:
    """Set the TCP and routing options of this process's network namespace."""
    for key, value in {**_SYSCTL, **_OPTIONAL}.items():
        path = f"/proc/sys/{key.replace('.', '/')}"
        if key in _OPTIONAL and not os.path.exists(path):
            continue
        with open(path, "w", encoding="ascii") as file:
            file.write(value)


def join(space: str) -> None:
    """Move this process into a network namespace."""
    library = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(f"/run/netns/{space}", os.O_RDONLY)
    try:
        if library.setns(descriptor, _CLONE_NEWNET):
            number = ctypes.get_errno()
            raise OSError(number, f"setns to {space}: {os.strerror(number)}")
    finally:
        os.close(descriptor)


def in_space(space: str, act: Callable[[], None]) -> None:
    """Call a function in a network namespace, in a separate process."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            join(space)
            act()
            status = 0
        except OSError as error:
            os.write(2, f"{space}: {error}\n".encode())
        finally:
            os._exit(status)
    if os.waitpid(child, 0)[1]:
        raise RuntimeError(f"the namespace {space} could not be set up")


def _run(command: Sequence[str], text: str | None = None) -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()[:600]}")
    return done.stdout


def _batch(program: Sequence[str], lines: Sequence[str]) -> None:
    if lines:
        _run([*program, "-batch", "-"], "\n".join(lines) + "\n")
