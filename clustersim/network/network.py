"""The network on the SimPy clock: transfers that a process can wait for, and whole collectives."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
import simpy
from numpy.typing import ArrayLike

from clustersim.collectives.schedule import Schedule
from clustersim.errors import InputError
from clustersim.network.collective import Collective
from clustersim.network.engine import Counts, Engine
from clustersim.network.environment import Environment
from clustersim.network.fair_share import SHARING
from clustersim.network.flow import INFINITE, Flow, Path
from clustersim.network.paths import BYTES_MOVED_PER_ADDED, Costs, Paths
from clustersim.network.plans import Plans
from clustersim.network.player import Player
from clustersim.network.repeats import Repeats
from clustersim.network.stuck import Stuck, find_stuck
from clustersim.network.transfer import Sent, SentTogether, check_message
from clustersim.topology import Topology, load_topology


class Routes(NamedTuple):
    """Routes of messages and the time before their first byte [num_messages]."""

    routes: list[np.ndarray]
    latency_s: np.ndarray


class FlowRate(NamedTuple):
    """A flow as it is now: the numbers of its links, its weight and its rate."""

    links: tuple[int, ...]
    weight: float
    bytes_per_s: float


class Network:
    """Messages over the links of a topology, in simulated time.

    A message first waits for the latency of its route and `overhead_s`, then shares every link of the
    route with whatever else is there. `efficiency` is the share of a link's rate that is payload. With
    `adds`, a message that reduces also takes its time in the receiver's memory (`Topology.adders`), or
    `add_s_per_byte` where given. Inside a host a message costs `host_overhead_s`, where given.

    What happens inside the network needs no SimPy event: it is played ahead, up to the next event that
    anybody else has on the clock or to a completion that somebody waits for. So whoever acts does it from
    a process, or between two calls of `env.run`. At one time, the network comes after all other events.
    Steps of a collective that is alone and repeats itself are multiplied (`Repeats`), unless `exact`.
    Messages of a collective of at most `eager_bytes`, where that is above 0, do not wait for their receiver.
    """

    def __init__(
        self,
        env: simpy.Environment,
        topology: Topology | Any,
        sharing: str = "max-min",
        overhead_s: float = 0.0,
        efficiency: float = 1.0,
        adds: bool = False,
        host_overhead_s: float | None = None,
        add_s_per_byte: float | None = None,
        exact: bool = False,
        eager_bytes: float = 0.0,
    ):
        costs = Costs(overhead_s, efficiency, host_overhead_s, add_s_per_byte, eager_bytes)
        self.env = env
        self.topology = topology if isinstance(topology, Topology) else load_topology(topology)
        self.overhead_s = overhead_s
        self.adds = adds
        self.engine = Engine(SHARING[sharing]())
        self.known_paths = Paths(self.topology, costs)
        self.plans = Plans(self.known_paths, costs.eager_bytes)
        self.collectives: dict[Collective, None] = {}  # those in progress
        self._repeats = None if exact else Repeats(self.engine, self.known_paths)
        self._player = Player(env, self.engine, self._repeats)
        if isinstance(env, Environment):
            env.networks.append(self)

    @property
    def now_s(self) -> float:
        """The time up to which the network has been played, which may be ahead of SimPy's."""
        return self.engine.now_s

    @property
    def link_bytes(self) -> np.ndarray:
        """[num_links] bytes that each link has carried, in messages that have ended."""
        carried = np.zeros(len(self.topology.links))
        for number, link in self.known_paths.links.items():
            carried[number] = link.carried_bytes
        return carried

    @property
    def counts(self) -> Counts:
        """How much work the network has done so far."""
        return self.engine.counts

    @property
    def shortcuts(self) -> tuple[str, ...]:
        """Which shortcuts were taken, in words."""
        if self._repeats is None or not self._repeats.num_steps:
            return ()
        return (f"steps of collectives multiplied: {self._repeats.num_steps} repeated the one before to 1e-12",)

    def flows(self) -> list[FlowRate]:
        """Return the flows that are on the wire, link by link in the order of first use."""
        return [
            FlowRate(tuple(link.number for link in flow.path.links), flow.weight, flow.bytes_per_s)
            for flow in self._flows()
        ]

    def watch(self, look: Callable[[float, list[FlowRate]], None]) -> None:
        """Call `look(time_s, flows)` after every share of the links from now on, to see rates as they change."""
        self.engine.after_share.append(lambda now_s: look(now_s, self.flows()))

    def transfer(
        self,
        src: Hashable,
        dst: Hashable,
        num_bytes: float,
        weight: float = 1.0,
        cap_bytes_per_s: float | None = None,
    ) -> simpy.Event:
        """Send a message; return an event whose value is its `TransferTimes`.

        `src` and `dst` are nodes of the topology or GPU numbers. Beside others on a link, a message gets
        `weight` parts of its rate, and nowhere more than `cap_bytes_per_s`, where given. From a node to itself
        it ends at once, unless there is a cap.
        """
        check_message(num_bytes, weight, cap_bytes_per_s)
        ends = self.topology.node(src), self.topology.node(dst)
        paths = self.known_paths
        path = paths.between(*ends) if cap_bytes_per_s is None else paths.capped(*ends, float(cap_bytes_per_s))
        return self._send(path, float(num_bytes), float(weight))

    def transfers(
        self,
        src: Sequence[Hashable] | np.ndarray,
        dst: Sequence[Hashable] | np.ndarray,
        num_bytes: ArrayLike,
        weight: ArrayLike = 1.0,
        start_s: ArrayLike | None = None,
    ) -> simpy.Event:
        """Send many messages; return an event that fires when all have ended, with `TransferTimes` of arrays.

        Each starts at its own simulated time, none of which is before now, or now where no times are given. What
        is the same for all may be a single number. SimPy sees one event for all of them.
        """
        if len(src) != len(dst):
            raise InputError(f"every transfer has a source and a destination (got {len(src)} and {len(dst)})")
        starts = _column(self.env.now if start_s is None else start_s, len(src), "start_s")
        sizes, weights = _column(num_bytes, len(src), "num_bytes"), _column(weight, len(src), "weight")
        if not ((starts >= self.env.now) & (starts < INFINITE)).all():
            raise InputError(f"start_s must have finite times, none of them before now ({self.env.now} s)")
        for size, part in {*zip(sizes.tolist(), weights.tolist(), strict=True)}:
            check_message(size, part)
        node = self.topology.node
        paths = [self.known_paths.between(node(a), node(b)) for a, b in zip(src, dst, strict=True)]
        self.before_acting()
        sent = SentTogether(self.env, self.engine, starts, sizes)
        sent.post(paths, weights)
        self.after_acting()
        return sent

    def cancel(self, transfer: simpy.Event) -> None:
        """Call off what `transfer` or `add` returned: its event fires now, with the bytes delivered by now.

        The links count them as carried, and others get its share. One that has ended is left as it is.
        """
        if not isinstance(transfer, Sent) or transfer.engine is not self.engine:
            raise InputError(f"only a transfer of this network can be cancelled (got {transfer})", got=str(transfer))
        self.before_acting()
        transfer.call_off()
        self.after_acting()

    def set_rate(self, link: int, bytes_per_s: float) -> None:
        """Let a link, by its number, have another rate from now on, which may be 0: then nothing on it moves.

        As on the link's sheet, `efficiency` is the share of that rate that is payload.
        """
        if not 0 <= link < len(self.topology.links) or link != int(link):
            raise InputError(f"links have the numbers 0 to {len(self.topology.links) - 1} (got {link})", got=str(link))
        if not 0 <= bytes_per_s < INFINITE:
            raise InputError(f"the rate of a link is 0 or more (got {bytes_per_s})", got=str(bytes_per_s))
        self.before_acting()
        rate = self.known_paths.payload_bytes_per_s(int(link), float(bytes_per_s))
        self.engine.set_rate(self.known_paths.link(int(link)), rate)
        self._player.set_alarm()

    def add(self, node: Hashable, num_bytes: float) -> simpy.Event:
        """Add a gradient to another in a node's memory; return an event like that of `transfer`."""
        check_message(num_bytes, 1.0)
        path = self.known_paths.adding(self.topology.node(node))
        return self._send(path, float(num_bytes), 1.0, BYTES_MOVED_PER_ADDED)

    def begin(self, schedule: Schedule, ranks: Sequence[Hashable], delay_s: np.ndarray | None = None) -> Collective:
        """Prepare a collective among nodes; each rank enters it when it is ready."""
        if len(ranks) != schedule.num_ranks:
            raise InputError(
                f"the schedule has {schedule.num_ranks} ranks (got {len(ranks)} nodes)", got=str(len(ranks))
            )
        nodes = np.array([self.topology.node(rank) for rank in ranks], dtype=np.int64)
        self.before_acting()
        collective = Collective(self, schedule, nodes, delay_s)
        self.after_acting()
        return collective

    def play(
        self,
        schedule: Schedule,
        ranks: Sequence[Hashable],
        enter_s: Sequence[float] | np.ndarray | None = None,
        delay_s: np.ndarray | None = None,
    ) -> simpy.Event:
        """Play a collective; return an event whose value has `end_s` [num_ranks].

        Rank i is `ranks[i]`, enters at the simulated time `enter_s[i]` (now, where not given) and pauses
        `delay_s[i, step]` before each step.
        """
        times = np.full(schedule.num_ranks, self.env.now) if enter_s is None else np.asarray(enter_s, dtype=float)
        if times.shape != (schedule.num_ranks,) or not (times >= self.env.now).all():
            raise InputError(
                f"enter_s must have a time for each of {schedule.num_ranks} ranks, none before now ({self.env.now} s)"
            )
        collective = self.begin(schedule, ranks, delay_s)
        collective.enter_at(times.tolist())
        self.after_acting()
        return collective.finished

    def paths(self, src: np.ndarray, dst: np.ndarray) -> Routes:
        """Return the routes between nodes and the time before a first byte moves on them."""
        ends = list(zip(src.tolist(), dst.tolist(), strict=True))
        wait_s = [self.known_paths.between(*both).latency_s for both in ends]
        return Routes([self.topology.route(*both) for both in ends], np.array(wait_s))

    def stuck(self) -> list[Stuck]:
        """Return who waits on this network, if nothing can happen on it unless somebody acts; else nobody."""
        if self.engine.told or self.engine.next_s() < INFINITE:
            return []
        return find_stuck(self.collectives, self._flows(), self._link_name)

    def before_acting(self) -> None:
        """Bring the network to SimPy's time."""
        self._player.before_acting()

    def after_acting(self) -> None:
        """Tell SimPy what follows at once, and when to look again."""
        self._player.after_acting()

    def _send(self, path: Path, num_bytes: float, weight: float, moved_per_byte: float = 1.0) -> simpy.Event:
        self.before_acting()
        sent = Sent(self.env, self.engine, path, num_bytes, weight)
        sent.post(moved_per_byte)
        self._player.set_alarm()
        return sent

    def _flows(self) -> dict[Flow, None]:
        return dict.fromkeys(flow for link in self.known_paths.links.values() for flow in link.flows)

    def _link_name(self, number: int) -> str:
        links, names = self.topology.links, self.topology.node_names
        return f"{number} ({names[int(links.src[number])]} > {names[int(links.dst[number])]})"


def _column(values: ArrayLike, num_rows: int, name: str) -> np.ndarray:
    """Return numbers [num_rows], of which one may stand for all."""
    column = np.asarray(values, dtype=float)
    if column.shape not in {(), (num_rows,)}:
        raise InputError(f"{name} must be one number or {num_rows} (got the shape {column.shape})")
    return np.full(num_rows, column) if column.shape == () else column.copy()
