"""Random work for networks: clusters, schedules, and people who act in the middle. For tests that compare two ways."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import pytest
import simpy
from hypothesis import strategies as st

from clustersim.collectives import COLLECTIVES, Schedule, Step, Transfer, options_of
from clustersim.collectives.schedule import Relays
from clustersim.network import Environment, FlowRate, Network
from clustersim.network.collective import Collective
from clustersim.topology import Node, Topology, load_topology

from .clusters import line, star

HOST = {"template": "dual-socket", "gpu": "k80", "num_gpus": 4, "nics": 1}
CLUSTERS = {
    "star": load_topology(star(9)),
    "torus": load_topology({"kind": "torus", "dims": [3, 2, 2], "link": "7 GB/s", "hop": "1 us"}),
    "fat-tree": load_topology({"kind": "fat-tree", "k": 4, "link": "3 GB/s", "hop": "600 ns"}),
    "hosts": load_topology({"kind": "star", "num_hosts": 3, "link": "1 GB/s", "hop": "1 us", "host": HOST}),
}
_NAMED = {**CLUSTERS, "line": load_topology(line(6, 1e9, 1e-5))}
_ALGORITHMS = [(kind, name) for kind in COLLECTIVES for name in COLLECTIVES[kind]]
_KINDS = ["send", "cap", "together", "add", "collective", "cancel", "rate", "stop", "wait", "look"]


@st.composite
def random_graphs(draw: st.DrawFn) -> nx.DiGraph:
    """Return GPUs and switches, connected at random; some GPUs have a memory to add in."""
    num_gpus, num_switches = draw(st.integers(2, 5)), draw(st.integers(1, 3))
    rates, latencies = st.sampled_from([1e8, 2e8, 4e8, 1e9]), st.sampled_from([0.0, 1e-6, 1e-3])
    graph = nx.DiGraph()
    for gpu in range(num_gpus):
        graph.add_node(f"gpu{gpu}", kind="gpu")
        if draw(st.booleans()):
            graph.add_edge(f"gpu{gpu}", f"gpu{gpu}", bytes_per_s=draw(rates), latency_s=0.0)
    cables = [(f"switch{number}", f"switch{draw(st.integers(0, number - 1))}") for number in range(1, num_switches)]
    cables += [(f"gpu{gpu}", f"switch{draw(st.integers(0, num_switches - 1))}") for gpu in range(num_gpus)]
    for number in range(num_switches):
        graph.add_node(f"switch{number}", kind="switch")
    for one, other in cables:
        for ends in ((one, other), (other, one)):
            graph.add_edge(*ends, bytes_per_s=draw(rates), latency_s=draw(latencies))
    return graph


@st.composite
def random_schedules(draw: st.DrawFn, num_ranks: int) -> Schedule:
    """Return a few steps, each any messages at all, that come again and again in any order."""
    rank = st.integers(0, num_ranks - 1)
    message = st.tuples(rank, rank, st.sampled_from([0.0, 1e4, 1e5, 3e5]), st.booleans())
    kinds = draw(st.lists(st.lists(message, max_size=4), min_size=1, max_size=3))
    rows = [[Transfer(0, src, dst, size, reduce=adds) for src, dst, size, adds in kind] for kind in kinds]
    steps = [
        Step.of(
            *([getattr(row, column) for row in kind] for column in ("src", "dst", "num_bytes")),
            reduce=np.array([row.reduce for row in kind], dtype=bool),
        )
        for kind in rows
    ]
    order = draw(st.lists(st.tuples(st.sampled_from(steps), st.integers(1, 6)), min_size=1, max_size=4))
    schedule = Schedule.from_steps(num_ranks, [step for step, times in order for _ in range(times)])
    hop = st.tuples(rank, rank, st.sampled_from([0.5, 1.0, 3.0]), st.sampled_from([0.0, 0.2, 1.0]))
    hops = draw(st.none() | st.lists(hop, max_size=4))
    if hops is None:
        return schedule
    src, dst, times, shares = np.array(hops).reshape(-1, 4).T
    relays = Relays(src.astype(np.int64), dst.astype(np.int64), times, shares)
    return replace(schedule, relays=relays, wait_s=draw(st.sampled_from([0.0, 1e-4])))


class Act(NamedTuple):
    """An act at a part of the time of the first collective without acts, or when a rank reaches a step."""

    kind: str
    when: float
    follows: bool  # a rank that gets to a step, instead of the clock
    one: int
    other: int
    num_bytes: float


class Work(NamedTuple):
    """A collective, the costs of messages, and acts during it."""

    topology: Topology
    schedule: Schedule
    nodes: list[int]
    enter_s: np.ndarray  # [num_ranks]
    enters_one_by_one: bool
    delay_s: np.ndarray | None
    costs: dict[str, Any]
    acts: list[Act]


acts = st.builds(
    Act,
    st.sampled_from(_KINDS),
    st.integers(0, 1000).map(lambda number: (number + 0.37) / 800),
    st.sampled_from([False, False, True]),
    st.integers(0, 30),
    st.integers(0, 30),
    st.sampled_from([0.0, 1e3, 1e5, 4e6]),
)


@st.composite
def works(draw: st.DrawFn, most_acts: int = 6, eager: bool = True) -> Work:
    """Return a registered collective on a well-known cluster or any schedule on any graph, and up to some acts."""
    is_any = draw(st.booleans())
    topology = load_topology(draw(random_graphs())) if is_any else _NAMED[draw(st.sampled_from(sorted(_NAMED)))]
    num_ranks = draw(st.integers(1, 5) if is_any else st.integers(2, 6))
    if is_any:
        schedule = draw(random_schedules(num_ranks))
    else:
        kind, name = draw(st.sampled_from(_ALGORITHMS))
        algorithm = COLLECTIVES[kind][name]
        known = {"rings": [range(num_ranks), range(num_ranks)[::-1]]} if draw(st.booleans()) else {}
        options = {option: known[option] for option in known if option in options_of(algorithm)}
        schedule = algorithm(num_ranks, draw(st.sampled_from([0.0, 1e3, 1e6])), **options)
    places = draw(st.sampled_from([topology.gpus, topology.memory])).tolist()
    nodes = draw(st.lists(st.sampled_from(places), min_size=num_ranks, max_size=num_ranks, unique=not is_any))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    jitter = draw(st.sampled_from([0.0, 0.0, 1e-5, 1e-3]))
    return Work(
        topology,
        schedule,
        nodes,
        rng.exponential(1.0, num_ranks) * draw(st.sampled_from([0.0, 1e-6, 1e-3])),
        draw(st.booleans()),
        rng.exponential(jitter, (num_ranks, schedule.num_steps)) if jitter else None,
        {
            "adds": draw(st.booleans()),
            "overhead_s": draw(st.sampled_from([0.0, 1e-6])),
            "eager_bytes": draw(st.sampled_from([0.0, 0.0, 1e4, 1e6])) if eager else 0.0,
            "connection_bytes_per_s": draw(st.sampled_from([None, None, 1.7e8])),
        },
        draw(st.lists(acts, max_size=most_acts)),
    )


class Played(NamedTuple):
    """The result of a work: the numbers of everything that was waited for or read."""

    seen: dict[str, np.ndarray]
    network: Network


def duration_s(work: Work) -> float:
    """Return how long a work takes without acts."""
    seen = play(work._replace(acts=[]), 0.0, exact=True, engine="python").seen
    return float(seen["0 finished"].max(initial=0.0)) or 1e-3


def play(work: Work, span_s: float, then: Callable[[Network], None] | None = None, **options: Any) -> Played:
    """Play a work, in which acts have their part of `span_s`; `then` may do more before it begins."""
    network = Network(Environment(), work.topology, **work.costs, **options)
    stage = _Stage(network, work, span_s)
    if then is not None:
        then(network)
    stage.begin()
    for number, act in enumerate(work.acts):
        network.env.process(stage.acting(number, act))
    network.env.run()
    stage.seen["link bytes"] = network.link_bytes
    return Played(stage.seen, network)


def assert_same(one: Played, other: Played) -> None:
    """Hold two ways of playing a work to 1e-9 in every number; of bytes, to 1e-9 of the most."""
    assert one.seen.keys() == other.seen.keys()
    for name, numbers in one.seen.items():
        most = float(np.abs(numbers).max(initial=0.0)) if "bytes" in name else 0.0
        assert other.seen[name] == pytest.approx(numbers, rel=1e-9, abs=1e-9 * most + 1e-300), name


class _Stage:
    """A work in progress."""

    def __init__(self, network: Network, work: Work, span_s: float):
        self.network = network
        self.work = work
        self.seen: dict[str, np.ndarray] = {}
        self._span_s = span_s
        self._sent: list[simpy.Event] = []
        self._collectives: list[Collective] = []
        self._places = [Node(node) for node in work.nodes]

    def begin(self) -> None:
        """Begin the work's own collective, whose ranks all at once or one by one get to enter."""
        work, network = self.work, self.network
        first = self._start(0, work.delay_s)
        if work.enters_one_by_one:
            for rank in range(len(work.nodes)):
                network.env.process(self._entering(first, rank))
        else:
            first.enter_at(work.enter_s.tolist())
            network.after_acting()

    def acting(self, number: int, act: Act) -> Iterator[simpy.Event]:
        """Wait for the time of an act, and act."""
        yield self.network.env.timeout(act.when * self._span_s)
        if act.follows:
            yield self._reached(act)
        getattr(self, f"_{act.kind}")(number + 1, act)

    def _entering(self, collective: Collective, rank: int) -> Iterator[simpy.Event]:
        yield self.network.env.timeout(float(self.work.enter_s[rank]))
        collective.enter(rank)

    def _start(self, number: int, delay_s: np.ndarray | None) -> Collective:
        collective = self.network.begin(self.work.schedule, self._places, delay_s)
        self._collectives.append(collective)
        self._note(f"{number} finished", collective.finished, lambda times: times.end_s)
        return collective

    def _note(self, name: str, event: simpy.Event, numbers: Callable[[Any], Any] = lambda value: []) -> None:
        def see(event: simpy.Event) -> None:
            self.seen[name] = np.append(np.asarray(numbers(event.value), dtype=float), self.network.env.now)

        event.callbacks.append(see)

    def _note_sent(self, number: int, sent: simpy.Event) -> None:
        self._note(f"{number} ends", sent, lambda times: times.end_s)
        self._note(f"{number} bytes", sent, lambda times: times.num_bytes)

    def _ends(self, act: Act) -> tuple[Node, Node]:
        gpus = self.work.topology.gpus
        return Node(int(gpus[act.one % len(gpus)])), Node(int(gpus[act.other % len(gpus)]))

    def _link(self, act: Act) -> int:
        return (31 * act.one + act.other) % len(self.work.topology.links)

    def _reached(self, act: Act) -> simpy.Event:
        collective = self._collectives[act.other % len(self._collectives)]
        rank = act.one % len(self.work.nodes)
        return collective.reached(rank, (act.one * act.other) % (self.work.schedule.num_steps + 1))

    def _send(self, number: int, act: Act) -> None:
        weight = (1.0, 1.0, 0.5, 3.0)[act.one % 4]
        self._sent.append(self.network.transfer(*self._ends(act), act.num_bytes, weight))
        self._note_sent(number, self._sent[-1])

    def _cap(self, number: int, act: Act) -> None:
        self._sent.append(self.network.transfer(*self._ends(act), act.num_bytes, cap_bytes_per_s=1.7e8))
        self._note_sent(number, self._sent[-1])

    def _together(self, number: int, act: Act) -> None:
        src, dst = self._ends(act)
        start_s = self.network.env.now + self._span_s * np.array([0.0, 0.0, 0.1, 0.35])
        times = np.array([1.0, 0.5, 0.0, 1.0]) * act.num_bytes
        self._note_sent(number, self.network.transfers([src, dst] * 2, [dst, src] * 2, times, start_s=start_s))

    def _add(self, number: int, act: Act) -> None:
        self._sent.append(self.network.add(self._ends(act)[0], act.num_bytes))
        self._note_sent(number, self._sent[-1])

    def _collective(self, number: int, act: Act) -> None:
        collective = self._start(number, self.work.delay_s if act.one % 2 else None)
        collective.enter(*range(len(self.work.nodes)))

    def _cancel(self, number: int, act: Act) -> None:
        if self._sent:
            self.network.cancel(self._sent[act.one % len(self._sent)])

    def _rate(self, number: int, act: Act) -> None:
        link = self._link(act)
        rate = float(self.work.topology.links.bytes_per_s[link])
        self.network.set_rate(link, rate * (0.3, 0.5, 1.0, 2.0)[act.one % 4])

    def _stop(self, number: int, act: Act) -> None:
        def coming_back() -> Iterator[simpy.Event]:
            yield self.network.env.timeout(0.3 * self._span_s)
            self._rate(number, act)

        self.network.set_rate(self._link(act), 0.0)
        self.network.env.process(coming_back())

    def _wait(self, number: int, act: Act) -> None:
        rank = act.one % len(self.work.nodes)
        self._note(f"{number} reached", self._reached(act))
        self._note(f"{number} done", self._collectives[-1].done(rank))

    def _look(self, number: int, act: Act) -> None:
        self.seen[f"{number} link bytes"] = self.network.link_bytes
        self.network.flows()  # who looks at it changes nothing, whatever else is to happen at this time
        self.network.env.process(self._looking(number))

    def _looking(self, number: int) -> Iterator[simpy.Event]:
        """Read the flows at a time without acts: the order of acts at one time is not defined."""
        yield self.network.env.timeout(0.00237 * self._span_s)
        rates = sorted((flow.bytes_per_s, flow.weight) for flow in self.network.flows())
        self.seen[f"{number} rates of flows"] = np.array(rates).ravel()


def watched(looks: list[tuple[float, list[FlowRate]]]) -> Callable[[Network], None]:
    """Return a function that appends every share of the links to a list."""

    def watch(network: Network) -> None:
        network.watch(lambda time_s, flows: looks.append((time_s, flows)))

    return watch
