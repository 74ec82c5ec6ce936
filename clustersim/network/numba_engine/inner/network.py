"""A network in the tables of kernels: links and paths as rows, and room for all processes on the clock."""

from __future__ import annotations

import numpy as np

from clustersim.network.flow import Link, Path, moved_bytes
from clustersim.network.numba_engine.heap import ABSENT, ENTRY
from clustersim.network.numba_engine.inner.tables import TABLES, Arrays
from clustersim.network.numba_engine.tables import NONE
from clustersim.network.python_engine.engine import PythonEngine
from clustersim.topology import Topology


class KernelNetwork:
    """The links and paths of a Python engine on which nothing moves, in a record of kind NETWORK.

    `num_waiting` processes are on the clock. All paths are requested first. A path gets its links when a message first
    takes it, as in the Python engine, where links are one until a path crosses only some of them.
    """

    def __init__(self, record: np.ndarray, engine: PythonEngine, topology: Topology, num_waiting: int):
        self._engine, self._topology = engine, topology
        self._num_waiting = num_waiting
        self._asked: dict[tuple[int, int], int] = {}  # row of a path from node to node, or of adding, to NONE
        self._laid: dict[Path, int] = {}
        self._links: dict[Link, int] = {}
        self._ends: list[tuple[int, int]] = []  # of each path that was requested
        self._row_of: dict[int, int] = {}  # of a link of the topology, by its number
        self._numbers: dict[int, list[int]] = {}  # of the links of the topology that are a row
        self._longest = 2  # links of a path; adding has that of a memory and a core
        self._arrays = Arrays(record)
        self._lines = [Arrays(record[name]) for name in ("urgent", "due")]
        self._heaps = {name: Arrays(record[name]) for name in ("alarms", "arrivals", "ends", "full")}

    def between(self, src: int, dst: int) -> int:
        """Return the row of the path from node to node."""
        self._longest = max(self._longest, len(self._topology.route(src, dst)))
        return self._asked.setdefault((src, dst), len(self._asked))

    def adding(self, node: int) -> int:
        """Return the row of the path of adding in a node's memory."""
        return self._asked.setdefault((node, int(NONE)), len(self._asked))

    def begin(self, due: np.ndarray) -> None:
        """Make the tables, with these processes due now, each of which is due at most four times at once."""
        self._ends = list(self._asked)
        num, member_bits = self._num_waiting, (self._longest - 1).bit_length()
        num_members, num_links = num << member_bits, self._longest * len(self._asked)
        sizes = dict.fromkeys(("links", "left", "tried", "path_links"), num_links)
        sizes |= {"members": num_members, "paths": len(self._asked)}
        self._arrays.record["member_bits"], self._arrays.record["wanted"] = member_bits, NONE
        self._arrays.set(**{name: np.zeros(sizes.get(name, num), kind) for name, kind in TABLES.items()})
        self._arrays["links"]["first"] = self._arrays["links"]["last"] = NONE
        self._arrays["paths"]["num_links"] = NONE
        self._arrays["paths"]["first"] = np.arange(len(self._asked)) * self._longest
        for line in self._lines:
            room = 1 << (4 * num).bit_length()
            line.set(places=np.zeros(room, np.int64))
            line.record["mask"] = room - 1
        self._lines[1]["places"][: len(due)], self._lines[1].record["size"] = due, len(due)
        for name, heap in self._heaps.items():
            room = num_links if name == "full" else num
            heap.set(entries=np.zeros(room + 1, ENTRY), places=np.full(room, ABSENT))

    def lay_wanted(self) -> None:
        """Give links to the path that the first message is to take now, if there is one."""
        row = int(self._arrays.record["wanted"][0])
        if row == NONE:
            return
        src, dst = self._ends[row]
        path = self._engine.paths.adding(src) if dst == NONE else self._engine.paths.between(src, dst)
        self._laid[path] = row
        self._arrays["paths"]["latency_s"][row] = path.latency_s
        new = self._new_links(path)
        for link in new:
            self._links[link] = len(self._links)
        for known in dict.fromkeys([path, *(known for link in new for known in link.paths)]):
            self._note_links(known)
        for link in new:
            self._add_link(link)

    def _new_links(self, path: Path) -> list[Link]:
        """Return the links that a new path adds: its own, and parts split off others."""
        crossed = [self._row_of[number] for link in path.links for number in link.rates if number in self._row_of]
        shared = [self._engine.paths.links[number] for row in dict.fromkeys(crossed) for number in self._numbers[row]]
        return [link for link in dict.fromkeys([*path.links, *shared]) if link not in self._links]

    def _note_links(self, path: Path) -> None:
        rows = [self._links[link] for link in path.links]
        paths, row = self._arrays["paths"], self._laid[path]
        paths["num_links"][row] = len(rows)
        first = int(paths["first"][row])
        self._arrays["path_links"][first : first + len(rows)] = rows

    def _add_link(self, link: Link) -> None:
        """Fill the row of a link; the flows on a link from which it was split are on it too."""
        rows, row = self._arrays["links"], self._links[link]
        numbers = [number for number in link.rates if number >= 0]
        whole = self._row_of.get(numbers[0]) if numbers else None
        if whole is not None:
            self._numbers[whole] = [number for number in self._numbers[whole] if number not in link.rates]
            rows[row] = rows[whole]
            self._add_members(row, self._on_link(whole))
        rows["bytes_per_s"][row], rows["has_left"][row] = link.bytes_per_s, 0
        self._numbers[row] = numbers
        self._row_of.update(dict.fromkeys(numbers, row))

    def _add_members(self, row: int, flows: list[int]) -> None:
        """Put flows on a link in this order."""
        bits, members, paths = (
            int(self._arrays.record["member_bits"][0]),
            self._arrays["members"],
            self._arrays["paths"],
        )
        taken = [int(NONE)]
        for process in flows:
            first = int(paths["first"][self._arrays["flows"]["path"][process]])
            place = self._arrays["path_links"][first : first + self._longest].tolist().index(row)
            taken.append((process << bits) + place)
        for before, member, behind in zip(taken, taken[1:], [*taken[2:], int(NONE)], strict=False):
            members[member] = behind, before
        self._arrays["links"]["first"][row] = taken[1] if flows else NONE
        self._arrays["links"]["last"][row] = taken[-1]

    def _on_link(self, row: int) -> list[int]:
        """Return the flows on a link in the order in which they came."""
        bits, flows = int(self._arrays.record["member_bits"][0]), []
        member = int(self._arrays["links"]["first"][row])
        while member != NONE:
            flows.append(member >> bits)
            member = int(self._arrays["members"]["next"][member])
        return flows

    def hand_back(self) -> None:
        """Add what has been carried here to the Python engine, including messages in flight."""
        rows = self._arrays["links"]
        for link, number in self._links.items():
            link.carried_bytes += float(rows["carried_bytes"][number])
            self._engine.settled_bytes[[each for each in link.rates if each >= 0]] += sum(self._moving_bytes(number))

    def _moving_bytes(self, number: int) -> list[float]:
        """Return the bytes that each message on a link has moved by now."""
        now_s, moved = float(self._arrays.record["now_s"][0]), []
        for flow in self._arrays["flows"][self._on_link(number)]:
            num_bytes, left_bytes, rate = (float(flow[name]) for name in ("num_bytes", "left_bytes", "bytes_per_s"))
            moved.append(moved_bytes(num_bytes, left_bytes, rate, now_s - float(flow["since_s"])))
        return moved
