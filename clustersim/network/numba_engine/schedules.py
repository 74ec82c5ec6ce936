"""Schedules prepared for kernels: paths, the messages of a schedule, and each rank's lists of them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from clustersim.collectives.run_length import RunLengthSteps
from clustersim.collectives.schedule import Schedule, Step
from clustersim.network.numba_engine.tables import ALWAYS, LINK, MESSAGE, NONE, NUM_LANES, PATH, Growth, Pool
from clustersim.network.paths import Costs, adders, connected, payload_rates, step_wait_s, wait_s, waits_s
from clustersim.topology import Topology


class CompiledSchedule(NamedTuple):
    """A schedule between some nodes: where its steps begin, and how many of its messages can be in flight at once."""

    first_step: int
    first_message: int
    num_messages: int
    most_flows: int
    first_of: dict[Hashable, int]  # the first message of each pattern, if there are no runs
    firsts: np.ndarray  # the same, in order
    runs: RunLengthSteps | None = None

    def row(self, schedule: Schedule, step: int, number: int) -> int:
        """Return the row of a message of a step."""
        if self.runs is None:
            return self.first_of[schedule.pattern(step)] + number
        return self.first_message + int(np.flatnonzero(self.runs.active(step))[number])

    def number(self, step: int, row: int) -> int:
        """Return the number, in its step, of the message of a row."""
        if self.runs is None:
            return row - int(self.firsts[np.searchsorted(self.firsts, row, side="right") - 1])
        return int(np.count_nonzero(self.runs.active(step)[: row - self.first_message]))


class PathTables:
    """Links and paths as rows. A topology's link has its own number; private links come after."""

    def __init__(self, topology: Topology, costs: Costs, growth: Growth):
        self._topology = topology
        self._costs = costs
        self.links = Pool(LINK, growth)
        self.paths = Pool(PATH, growth)
        self.path_links = Pool(np.dtype(np.int32), growth)
        self.longest = 1
        self._lanes: dict[float, int] = {}
        self._growth = growth
        self._adding: dict[tuple[int, int], int] = {}
        self._connections: dict[tuple[int, int], int] = {}
        self._singles: dict[tuple[int, int], int] = {}
        self._waits: dict[Hashable, float | None] = {}
        self._together: dict[tuple[bytes, bytes, float | None], int] = {}
        self._add_links(payload_rates(topology, costs))
        self.empty_path = self.path_over(np.zeros(0, np.int64), 0.0)

    @property
    def num_lanes(self) -> int:
        return len(self._lanes)

    def paths_between(self, src: np.ndarray, dst: np.ndarray, relayed_s: float | None = None) -> np.ndarray:
        """Return the paths between nodes [num_paths], cached by nodes; with a wait, all are of channels."""
        key = src.tobytes(), dst.tobytes(), relayed_s
        if key not in self._together:
            self._together[key] = self._between(src, dst, relayed_s)
        first = self._together[key]
        return np.arange(first, first + len(src))

    def step_wait_s(self, schedule: Schedule, nodes: np.ndarray) -> float | None:
        """Return how long each step of a schedule with relays waits; None where it has none."""
        if schedule.relays is None:
            return None
        key = nodes.tobytes(), schedule.num_steps, schedule.wait_s, *(column.tobytes() for column in schedule.relays)
        if key not in self._waits:
            self._waits[key] = step_wait_s(self._topology, self._costs, schedule, nodes)
        return self._waits[key]

    def path(self, src: int, dst: int) -> int:
        """Return the path from node to node."""
        row = self._singles.get((src, dst))
        if row is None:
            route = self._topology.route(src, dst)
            latency_s = wait_s(self._topology, self._costs, src, dst, route)
            if self._costs.connection_bytes_per_s and connected(self._topology, src, dst):
                route = np.append(route, self.connection(src, dst))
            row = self.path_over(route, latency_s)
            self._singles[src, dst] = row
        return row

    def adding(self, node: int, rank: int) -> int:
        """Return the path of adding in a node's memory by one rank there, or -1 where it takes no time."""
        row = self._adding.get((node, rank))
        if row is None:
            links, private = adders(self._topology, self._costs, node)
            rows = [*links, *map(self.private_link, private)]
            row = self.path_over(np.array(rows), 0.0) if rows else NONE
            self._adding[node, rank] = row
        return row

    def connection(self, src: int, dst: int) -> int:
        """Return the link of the connection from node to node, which has its own rate."""
        if (src, dst) not in self._connections:
            assert self._costs.connection_bytes_per_s is not None
            self._connections[src, dst] = self.private_link(self._costs.connection_bytes_per_s)
        return self._connections[src, dst]

    def with_cap(self, path: int, bytes_per_s: float) -> int:
        """Return a path like another one, plus a private link of a rate."""
        links = np.append(self.links_of(path), self.private_link(bytes_per_s))
        return self.path_over(links, float(self.paths.array["latency_s"][path]))

    def links_of(self, path: int) -> np.ndarray:
        """Return the links of a path, in order."""
        row = self.paths.array[path]
        links: np.ndarray = self.path_links.array[row["first"] : row["first"] + row["num_links"]]
        return links

    def private_link(self, bytes_per_s: float) -> int:
        """Return a new private link."""
        return self._add_links(np.array([bytes_per_s]))

    def path_over(self, links: np.ndarray, latency_s: float) -> int:
        """Return a path over links, after a latency."""
        self._expect(len(links))
        return self.paths.add_one((self.path_links.add(links), len(links), self._lane(latency_s), latency_s))

    def _between(self, src: np.ndarray, dst: np.ndarray, relayed_s: float | None) -> int:
        """Add the paths between nodes and return the row of the first."""
        if relayed_s is None:
            routes = self._topology.routes(src, dst)
            latency_s = waits_s(self._topology, self._costs, src, dst, routes)
        else:
            routes, latency_s = self._topology.channel_routes(src, dst), np.full(len(src), relayed_s)
        return self._add_paths(*self._with_connections(src, dst, routes.first, routes.links), latency_s)

    def _with_connections(
        self, src: np.ndarray, dst: np.ndarray, first: np.ndarray, links: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the first places [num_paths + 1] and links of routes that end with their connections."""
        if not self._costs.connection_bytes_per_s:
            return first, links
        own = np.flatnonzero(connected(self._topology, src, dst))
        rows = [self.connection(*ends) for ends in zip(src[own].tolist(), dst[own].tolist(), strict=True)]
        more = np.zeros(len(first), dtype=np.int64)
        more[own + 1] = 1
        return first + np.cumsum(more), np.insert(links, first[own + 1], rows)

    def _add_links(self, bytes_per_s: np.ndarray) -> int:
        rows = np.zeros(len(bytes_per_s), LINK)
        rows["bytes_per_s"], rows["first"], rows["last"] = bytes_per_s, NONE, NONE
        return self.links.add(rows)

    def _add_paths(self, first: np.ndarray, links: np.ndarray, latency_s: np.ndarray) -> int:
        rows = np.zeros(len(latency_s), PATH)
        rows["first"] = first[:-1] + self.path_links.add(links)
        rows["num_links"] = np.diff(first)
        rows["latency_s"] = latency_s
        different, kinds = np.unique(latency_s, return_inverse=True)
        rows["lane"] = np.array([self._lane(each) for each in different.tolist()], dtype=np.int64)[kinds]
        self._expect(int(rows["num_links"].max(initial=1)))
        return self.paths.add(rows)

    def _expect(self, num_links: int) -> None:
        """Prepare for paths of this length."""
        if num_links > self.longest:
            self.longest = num_links
            self._growth.has_been = True

    def _lane(self, latency_s: float) -> int:
        """Return the lane of a latency, or none when all lanes are taken."""
        lane = self._lanes.get(latency_s)
        if lane is None and len(self._lanes) == NUM_LANES:
            return NONE
        if lane is None:
            self._growth.has_been = True
            lane = self._lanes[latency_s] = len(self._lanes)
        return lane


class _Like(NamedTuple):
    """The messages of a step without their bytes, and each rank's list of them; both count from their first."""

    rows: np.ndarray
    own: np.ndarray
    own_first: np.ndarray


class CompiledSchedules:
    """The schedules that have been used, as rows. Equal steps share their messages."""

    def __init__(self, path_tables: PathTables, adds: bool, eager_bytes: float, growth: Growth):
        self._path_tables = path_tables
        self._eager_bytes = eager_bytes
        self._adds = adds
        self.messages = Pool(MESSAGE, growth)
        self.own = Pool(np.dtype(np.int32), growth)
        self.own_first = Pool(np.dtype(np.int64), growth)
        self.steps = Pool(np.dtype(np.int64), growth)
        self._known: WeakKeyDictionary[Schedule, dict[bytes, CompiledSchedule]] = WeakKeyDictionary()
        self._alike: dict[Hashable, _Like] = {}

    def program(self, schedule: Schedule, nodes: np.ndarray) -> CompiledSchedule:
        """Return a schedule between nodes [num_ranks] as rows."""
        known = self._known.setdefault(schedule, {})
        key = nodes.tobytes()
        if key not in known:
            known[key] = self._make(schedule, nodes)
        return known[key]

    def _make(self, schedule: Schedule, nodes: np.ndarray) -> CompiledSchedule:
        if schedule.runs is not None:
            return self._of_runs(schedule, schedule.runs, nodes)
        lists: dict[Hashable, int] = {}
        first_of: dict[Hashable, int] = {}
        steps = np.zeros(schedule.num_steps, dtype=np.int64)
        relayed_s = self._path_tables.step_wait_s(schedule, nodes)
        most, first_message = np.zeros(schedule.num_ranks, dtype=np.int64), self.messages.num_rows
        for number in range(schedule.num_steps):
            pattern = schedule.pattern(number)
            if pattern not in lists:
                columns = schedule.step(number)
                first_of[pattern] = self.messages.num_rows
                lists[pattern] = self._add_step(columns, nodes, relayed_s)
                np.maximum(most, self._num_flows_of(columns, schedule.num_ranks), out=most)
            steps[number] = lists[pattern]
        num_messages = self.messages.num_rows - first_message
        return CompiledSchedule(
            self.steps.add(steps),
            first_message,
            num_messages,
            int(most.sum()),
            first_of,
            np.array([*first_of.values()]),
        )

    def _of_runs(self, schedule: Schedule, runs: RunLengthSteps, nodes: np.ndarray) -> CompiledSchedule:
        """Return a program whose steps have one common list of messages, each with the steps in which it is sent."""
        columns, first_message = runs.columns, self.messages.num_rows
        lists = self._add_step(columns, nodes, self._path_tables.step_wait_s(schedule, nodes), runs)
        pairs = np.unique(columns.src * len(nodes) + columns.dst)
        apart = columns._replace(src=pairs // len(nodes), dst=pairs % len(nodes))
        most = int(self._num_flows_of(apart, len(nodes)).sum())
        steps = self.steps.add(np.full(schedule.num_steps, lists, dtype=np.int64))
        return CompiledSchedule(steps, first_message, len(columns.src), most, {}, np.empty(0, dtype=np.int64), runs)

    def _num_flows_of(self, columns: Step, num_ranks: int) -> np.ndarray:
        """Return how many messages each rank [num_ranks] can have in flight in a step.

        A message is in flight while its sender is in its step; an early one is added in its receiver's step.
        """
        sent = np.bincount(columns.src, minlength=num_ranks)
        return sent + np.bincount(columns.dst, minlength=num_ranks) if self._eager_bytes > 0 else sent

    def _add_step(
        self, columns: Step, nodes: np.ndarray, relayed_s: float | None, runs: RunLengthSteps | None = None
    ) -> int:
        """Add the messages of a step, or of runs; return where the ranks' lists of them begin."""
        like = self._like(columns, nodes, relayed_s)
        rows = like.rows.copy()
        rows["num_bytes"] = columns.num_bytes
        if self._eager_bytes > 0:
            rows["eager"] = (columns.num_bytes <= self._eager_bytes) & (columns.src != columns.dst)
        if runs is not None:
            rows["first_step"], rows["end_step"] = runs.first, runs.end
        first = self.messages.add(rows)
        return self.own_first.add(like.own_first + self.own.add(like.own + first))

    def _like(self, columns: Step, nodes: np.ndarray, relayed_s: float | None) -> _Like:
        """Return what all steps with the same ends between these nodes [num_ranks] share, whatever their bytes."""
        key = nodes.tobytes(), columns.src.tobytes(), columns.dst.tobytes(), columns.reduce.tobytes(), relayed_s
        if key not in self._alike:
            self._alike[key] = self._first_like(columns, nodes, relayed_s)
        return self._alike[key]

    def _first_like(self, columns: Step, nodes: np.ndarray, relayed_s: float | None) -> _Like:
        rows = np.zeros(len(columns.src), MESSAGE)
        rows["src"], rows["dst"], rows["end_step"], rows["adding"] = columns.src, columns.dst, ALWAYS, NONE
        rows["path"] = self._path_tables.paths_between(nodes[columns.src], nodes[columns.dst], relayed_s)
        if self._adds:
            for message in np.flatnonzero(columns.reduce).tolist():
                rank = int(columns.dst[message])
                rows["adding"][message] = self._path_tables.adding(int(nodes[rank]), rank)
        received = np.flatnonzero(columns.src != columns.dst)
        ranks = np.concatenate([columns.src, columns.dst[received]])
        messages = np.concatenate([np.arange(len(rows)), received])
        ends = np.cumsum(np.bincount(ranks, minlength=len(nodes)))
        return _Like(rows, messages[np.argsort(ranks, kind="stable")], np.concatenate([[0], ends]))
