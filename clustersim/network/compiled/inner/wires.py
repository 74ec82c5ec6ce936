"""A network as the kernels see it: links and paths as rows, and room for all who are on the clock."""

from __future__ import annotations

import numpy as np

from clustersim.network.compiled.heap import ABSENT
from clustersim.network.compiled.inner.heap import ENTRY
from clustersim.network.compiled.inner.tables import TABLES, Arrays
from clustersim.network.compiled.tables import NONE
from clustersim.network.flow import Link, Path, moved_bytes
from clustersim.network.plain import PlainSide


class Wires:
    """The wires of a plain side on which nothing moves, for `num_waiting` on the clock, in a record of kind WIRES.

    All paths are asked for first, since links are told apart by the paths over them. Then `lay`, play, and `hand_back`.
    """

    def __init__(self, record: np.ndarray, side: PlainSide, num_waiting: int):
        self._side = side
        self._num_waiting = num_waiting
        self._paths: dict[Path, int] = {}
        self._links: dict[Link, int] = {}
        self._arrays = Arrays(record)
        self._lines = [Arrays(record[name]) for name in ("urgent", "due")]
        self._heaps = {name: Arrays(record[name]) for name in ("alarms", "arrivals", "ends", "full")}

    def between(self, src: int, dst: int) -> int:
        """Return the row of the path from node to node."""
        return self._paths.setdefault(self._side.paths.between(src, dst), len(self._paths))

    def adding(self, node: int) -> int:
        """Return the row of the path of adding in a node's memory."""
        return self._paths.setdefault(self._side.paths.adding(node), len(self._paths))

    def lay(self, due: np.ndarray) -> None:
        """Make the tables, with these due now, of whom each is due at most four times at once."""
        for path in self._paths:
            for link in path.links:
                self._links.setdefault(link, len(self._links))
        seat_bits = (max(len(path.links) for path in self._paths) - 1).bit_length()
        num, sizes = self._num_waiting, {"seats": self._num_waiting << seat_bits, "links": len(self._links)}
        sizes |= {"left": len(self._links), "tried": len(self._links), "paths": len(self._paths)}
        sizes["path_links"] = sum(len(path.links) for path in self._paths)
        self._arrays.record["seat_bits"] = seat_bits
        self._arrays.set(**{name: np.zeros(sizes.get(name, num), kind) for name, kind in TABLES.items()})
        self._fill_paths()
        self._fill_links()
        for line in self._lines:
            room = 1 << (4 * num).bit_length()
            line.set(places=np.zeros(room, np.int64))
            line.record["mask"] = room - 1
        self._lines[1]["places"][: len(due)], self._lines[1].record["size"] = due, len(due)
        for name, heap in self._heaps.items():
            room = len(self._links) if name == "full" else num
            heap.set(entries=np.zeros(room + 1, ENTRY), places=np.full(room, ABSENT))

    def hand_back(self) -> None:
        """Let the plain side have carried what has been carried here, messages on their way included."""
        rows = self._arrays["links"]
        for link, number in self._links.items():
            link.carried_bytes += float(rows["carried_bytes"][number])
            self._side.settled_bytes[[each for each in link.rates if each >= 0]] += sum(self._moving_bytes(number))

    def _moving_bytes(self, number: int) -> list[float]:
        """Return the bytes that each message on a link has moved by now."""
        record, moved = self._arrays.record, []
        seat = int(self._arrays["links"]["first"][number])
        while seat != NONE:
            flow = self._arrays["flows"][seat >> int(record["seat_bits"][0])]
            for_s = float(record["now_s"][0] - flow["since_s"])
            num_bytes, left_bytes, rate = (float(flow[name]) for name in ("num_bytes", "left_bytes", "bytes_per_s"))
            moved.append(moved_bytes(num_bytes, left_bytes, rate, for_s))
            seat = int(self._arrays["seats"]["next"][seat])
        return moved

    def _fill_paths(self) -> None:
        first = 0
        for path, number in self._paths.items():
            links = [self._links[link] for link in path.links]
            self._arrays["paths"][number] = first, len(links), path.latency_s
            self._arrays["path_links"][first : first + len(links)] = links
            first += len(links)

    def _fill_links(self) -> None:
        rows = self._arrays["links"]
        rows["bytes_per_s"] = [link.bytes_per_s for link in self._links]
        rows["first"] = rows["last"] = NONE
