"""The tables that the kernels work on: a row a link, a path, a seat, and a flow for everybody on the clock."""

from __future__ import annotations

from typing import Any

import numpy as np

from clustersim.network.compiled.inner.heap import HEAP
from clustersim.network.compiled.jit import row, table

_INT, _REAL = np.int64, np.float64

LINK = np.dtype(
    [
        ("bytes_per_s", _REAL),
        ("carried_bytes", _REAL),
        ("first", _INT),  # seat of the flow that came first
        ("last", _INT),  # seat of the flow that came last
        ("num_flows", _INT),
        ("has_left", _INT),  # whether it stands among this instant's links that have lost a flow
        ("batch", _INT),  # stamps links that have been looked at once
        ("entry", _INT),  # in the queue of this solve that is valid
        ("tried", _INT),  # the share in which it was tried whether it is full at a level
        ("tried_level", _REAL),
    ]
)
FLOW = np.dtype(
    [
        ("num_bytes", _REAL),
        ("left_bytes", _REAL),  # at `since_s`
        ("since_s", _REAL),
        ("bytes_per_s", _REAL),
        ("path", _INT),
        ("bottleneck", _INT),
        ("mark", _INT),
        ("held", _INT),  # the share in which it was tried whether it has a level
        ("held_level", _REAL),
    ]
)
PATH = np.dtype([("first", _INT), ("num_links", _INT), ("latency_s", _REAL)])  # of -1 links: it is yet to be laid
SEAT = np.dtype([("next", _INT), ("before", _INT)])  # a place of a flow in the list of a link
LINE = np.dtype([("first", _INT), ("size", _INT), ("mask", _INT), ("places", _INT)])
"""First come, first served: where the first is, how many there are, and the address of a round of places."""

TABLES: dict[str, np.dtype[Any]] = {
    "links": LINK,
    "flows": FLOW,
    "paths": PATH,
    "path_links": np.dtype(_INT),
    "seats": SEAT,
    "started": np.dtype(_INT),  # flows of this instant
    "left": np.dtype(_INT),  # links of this instant that have lost a flow
    "risen": np.dtype(_INT),  # flows of this solve
    "queued": np.dtype(_INT),  # links, by their entries in the queue of this solve
    "changed": np.dtype(_INT),  # flows of this share that have a new rate
    "held": np.dtype(_INT),  # flows on the links that were tried
    "tried": np.dtype(_INT),  # links of this share
}
WIRES = np.dtype(
    [
        ("now_s", _REAL),
        ("latest_s", _REAL),  # what is due by then counts as due now
        ("is_over", _INT),  # nothing is played after this instant
        ("wanted", _INT),  # a path that is to be laid, and whose message waits for that
        ("wanted_by", _INT),
        ("seat_bits", _INT),  # a flow has 2**seat_bits seats
        ("rising", _INT),  # the mark of flows that rise in this share; one more is the mark of those fixed
        ("num_rising", _INT),  # flows that have risen, fixed ones included
        ("num_to_fix", _INT),
        ("sees_standing", _INT),  # whether a link has been queued that standing flows cross
        ("floor", _REAL),  # level that this solve has reached
        ("batch", _INT),
        ("num_started", _INT),
        ("num_left", _INT),
        ("num_changed", _INT),
        ("num_queued", _INT),
        ("num_held", _INT),
        ("num_tried", _INT),
        ("urgent", LINE),  # who comes before all that is due
        ("due", LINE),
        ("alarms", HEAP),  # who waits for a time
        ("arrivals", HEAP),  # flows, by when they come to their links
        ("ends", HEAP),  # flows, by when they end
        ("full", HEAP),  # entries of links, by the level at which these are full
        *[(name, _INT) for name in TABLES],  # the address of each
    ]
)

# In kernels: a row of a table, by its number.
link = row("links", LINK)
flow = row("flows", FLOW)
path = row("paths", PATH)
seat = row("seats", SEAT)

# In kernels: the tables of plain numbers.
path_links = table("path_links", TABLES["path_links"])
started = table("started", TABLES["started"])
left = table("left", TABLES["left"])
risen = table("risen", TABLES["risen"])
changed = table("changed", TABLES["changed"])
queued = table("queued", TABLES["queued"])
held = table("held", TABLES["held"])
tried = table("tried", TABLES["tried"])
places = table("places", np.dtype(_INT))  # of a line


class Arrays:
    """Arrays whose addresses are in the only row of a record, in fields of their names; kept as long as this is."""

    def __init__(self, record: np.ndarray):
        self.record = record
        self._arrays: dict[str, np.ndarray] = {}

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def set(self, **arrays: np.ndarray) -> None:
        """Let the record have these, each one piece of memory."""
        for name, array in arrays.items():
            assert array.flags.c_contiguous
            self._arrays[name] = array
            self.record[name] = array.ctypes.data
