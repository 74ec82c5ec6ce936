"""The tables that the kernels work on: a row per link, path and member, and a flow for each process on the clock."""

from __future__ import annotations

import numpy as np

from clustersim.network.numba_engine import tables
from clustersim.network.numba_engine.heap import HEAP
from clustersim.network.numba_engine.jit import address_of, table

_INT, _REAL = np.int64, np.float64

LINE = np.dtype([("first", _INT), ("size", _INT), ("mask", _INT), ("places", _INT)])
"""First come, first served: the place of the first, the number in it, and the address of a ring buffer."""

_NAMES = ("links", "flows", "paths", "path_links", "members")
_LISTS = ("started", "left", "risen", "changed", "held", "tried")
TABLES = {name: tables.TABLES[name] for name in (*_NAMES, *_LISTS)}
"""Tables of `numba_engine.tables` that sharing links needs; the flow of a process has its row."""

NETWORK = np.dtype(
    [
        ("now_s", _REAL),
        ("latest_s", _REAL),  # what is due by then counts as due now
        ("is_over", _INT),  # nothing is simulated after this instant
        ("wanted", _INT),  # a path that needs links, and whose message waits for them
        ("wanted_by", _INT),
        ("member_bits", _INT),  # a flow is a member of at most 2**member_bits links
        ("rising", _INT),  # the mark of flows that rise in this share; one more is the mark of fixed ones
        ("num_rising", _INT),  # flows that have risen, including fixed ones
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
        ("urgent", LINE),  # processes that come before all that is due
        ("due", LINE),
        ("alarms", HEAP),  # processes that wait for a time
        ("arrivals", HEAP),  # flows, by when they reach their links
        ("ends", HEAP),  # flows, by when they end
        ("full", HEAP),  # links, by the level at which they are full
        *[(name, _INT) for name in TABLES],  # the address of each
    ]
)

places = table("places", np.dtype(_INT))  # of a queue


class Arrays:
    """Arrays whose addresses are in the only row of a record, in fields of their names; this keeps them alive."""

    def __init__(self, record: np.ndarray):
        self.record = record
        self._arrays: dict[str, np.ndarray] = {}

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def set(self, **arrays: np.ndarray) -> None:
        """Put the addresses of these contiguous arrays in the record."""
        for name, array in arrays.items():
            assert array.flags.c_contiguous
            self._arrays[name] = array
            self.record[name] = address_of(array)
