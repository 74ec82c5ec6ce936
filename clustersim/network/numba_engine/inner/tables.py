"""The tables that the kernels work on: a row a link, a path, a member, and a flow for everybody on the clock."""

from __future__ import annotations

import numpy as np

from clustersim.network.numba_engine import tables
from clustersim.network.numba_engine.heap import HEAP
from clustersim.network.numba_engine.jit import address_of, table

_INT, _REAL = np.int64, np.float64

LINE = np.dtype([("first", _INT), ("size", _INT), ("mask", _INT), ("places", _INT)])
"""First come, first served: where the first is, how many there are, and the address of a round of places."""

_NAMES = ("links", "flows", "paths", "path_links", "members")
_LISTS = ("started", "left", "risen", "changed", "held", "tried")
TABLES = {name: tables.TABLES[name] for name in (*_NAMES, *_LISTS)}
"""Those of the compiled side's that sharing links takes; who has a flow is its row."""

NETWORK = np.dtype(
    [
        ("now_s", _REAL),
        ("latest_s", _REAL),  # what is due by then counts as due now
        ("is_over", _INT),  # nothing is played after this instant
        ("wanted", _INT),  # a path that is to be laid, and whose message waits for that
        ("wanted_by", _INT),
        ("member_bits", _INT),  # a flow has 2**member_bits seats
        ("rising", _INT),  # the mark of flows that rise in this share; one more is the mark of those fixed
        ("num_rising", _INT),  # flows that have risen, fixed ones included
        ("num_to_fix", _INT),
        ("sees_standing", _INT),  # whether a link has been queued that standing flows cross
        ("floor", _REAL),  # level that this solve has reached
        ("batch", _INT),
        ("num_started", _INT),
        ("num_left", _INT),
        ("num_changed", _INT),
        ("num_held", _INT),
        ("num_tried", _INT),
        ("num_solves", _INT),
        ("num_levels", _INT),
        ("urgent", LINE),  # who comes before all that is due
        ("due", LINE),
        ("alarms", HEAP),  # who waits for a time
        ("arrivals", HEAP),  # flows, by when they come to their links
        ("ends", HEAP),  # flows, by when they end
        ("full", HEAP),  # links, by the level at which they are full
        *[(name, _INT) for name in TABLES],  # the address of each
    ]
)

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
            self.record[name] = address_of(array)
