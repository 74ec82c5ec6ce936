"""The tables that kernels work on. Each thing is a row; references to it are its row number, or -1 for none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from clustersim.network.numba_engine.heap import HEAP
from clustersim.network.numba_engine.jit import row, table

INFINITE = np.inf
FIRST = cast(int, np.int64(0))
NONE = cast(int, np.int64(-1))  # of the width that all numbers have in kernels
NEVER = cast(int, np.int64(1 << 62))
ALL = cast(int, np.int64(-1))  # messages of a group without steps: one notification, when the last one has ended
EACH = cast(int, np.int64(-2))  # or one for each
NUM_LANES = 16  # latencies with their own queue; messages of all others wait in a heap

# stages of a flow: waiting for its latency, moving over links, being added in the receiver's memory
IN_LATENCY = cast(int, np.int64(0))
ON_LINKS = cast(int, np.int64(1))
ADDING = cast(int, np.int64(2))

_INT, _SHORT, _REAL = np.int64, np.int32, np.float64

_CLOCK: list[tuple[str, type]] = [
    ("now_s", _REAL),
    ("rising", _INT),  # the mark of flows that rise in this solve; one more is the mark of fixed ones
    ("num_rising", _INT),  # flows that have risen in this solve, including fixed ones
    ("num_to_fix", _INT),
    ("sees_standing", _INT),  # whether a link has been queued that standing flows cross
    ("floor", _REAL),  # level that this solve has reached
    ("batch", _INT),  # marks links that have been visited once
    ("num_free", _INT),
    ("num_started", _INT),
    ("num_left", _INT),
    ("num_changed", _INT),
    ("num_held", _INT),
    ("num_tried", _INT),
    ("num_notifications", _INT),
    ("num_lanes", _INT),
    ("member_bits", _INT),  # a flow is a member of at most 2**member_bits links
    ("num_noted", _INT),  # instants since the last lockstep, including it; 0 where there is none
    ("num_in_lockstep", _INT),  # groups that were in lockstep then
    ("num_locksteps", _INT),  # how often lockstep was looked for
    ("num_skips", _INT),  # how often repeated steps were extrapolated
]
_COUNTS: list[tuple[str, type]] = [
    ("num_instants", _INT),
    ("num_flows", _INT),
    ("num_shares", _INT),
    ("num_solves", _INT),
    ("num_levels", _INT),
]
LINK = np.dtype(
    [
        ("bytes_per_s", _REAL),
        ("carried_bytes", _REAL),
        ("first", _INT),  # member of the flow that came first
        ("last", _INT),  # member of the flow that came last
        ("num_flows", _INT),
        ("batch", _INT),
        ("has_left", _INT),  # whether it is in this instant's list of links that have lost a flow
        ("tried", _INT),  # the share in which a level was tried on it
        ("tried_level", _REAL),
    ]
)
FLOW = np.dtype(
    [
        ("left_bytes", _REAL),  # at `since_s`
        ("since_s", _REAL),  # of its rate, or when it arrives at its links
        ("bytes_per_s", _REAL),
        ("level", _REAL),
        ("weight", _REAL),
        ("num_bytes", _REAL),
        ("path", _INT),
        ("bottleneck", _INT),
        ("mark", _INT),
        ("held", _INT),  # the share in which a level was tried for it
        ("held_level", _REAL),
        ("stage", _INT),
        ("group", _INT),
        ("message", _INT),  # its row, or in a group without steps its number there
        ("step", _INT),
        ("behind", _INT),  # the next flow in its lane
    ]
)
MEMBER = np.dtype([("next", _SHORT), ("before", _SHORT)])  # a flow in the linked list of a link
PATH = np.dtype([("first", _INT), ("num_links", _INT), ("lane", _INT), ("latency_s", _REAL)])
LANE = np.dtype(
    [("first", _INT), ("last", _INT), ("first_s", _REAL)]
)  # a queue of messages with the same latency, in order
MESSAGE = np.dtype(
    [
        ("src", _SHORT),
        ("dst", _SHORT),
        ("path", _SHORT),
        ("adding", _SHORT),
        ("eager", _SHORT),
        ("first_step", _SHORT),  # it is sent from this step on, where it is listed
        ("end_step", _SHORT),  # to before this one
        ("num_bytes", _REAL),
    ],
    align=True,
)
ALWAYS = np.iinfo(_SHORT).max
RANK = np.dtype(
    [
        ("reached_s", _REAL),  # when it reached its step, or its end
        ("group", _INT),
        ("step", _INT),  # that it has reached; -1 before it enters
        ("at", _INT),  # the step in which it sends and receives; -1 while it pauses
        ("unfinished", _INT),  # its messages of this step that have not ended
        ("awaited", _INT),  # the nearest step that is waited for, or NEVER
    ]
)
GROUP = np.dtype(
    [
        ("first_rank", _INT),
        ("num_ranks", _INT),
        ("num_steps", _INT),  # or `ALL` or `EACH` for single messages, which have numbers as ranks have
        ("num_left", _INT),
        ("steps", _INT),  # where its steps begin
        ("delays", _INT),  # where its pauses begin, or -1
        ("first_message", _INT),
        ("num_messages", _INT),
        ("early", _INT),  # where its counts of messages that came before their receiver begin
        ("lockstep", _INT),  # the number of the last one for which it was checked
        ("step_now", _INT),  # its step then
        ("step_before", _INT),  # and in the one before
        ("num_at_ends", _INT),  # its messages then, each at both its ends
    ]
)
NOTED = np.dtype(
    [
        ("time_s", _REAL),
        ("origin", _INT),  # an earlier instant that is noted
        ("after_s", _REAL),  # the duration of one event since then
    ]
)
NOTIFICATION = np.dtype([("group", _INT), ("rank", _INT)])  # a rank has reached an awaited step; rank -1: all are done


TABLES: dict[str, np.dtype[Any]] = {
    "links": LINK,
    "flows": FLOW,
    "members": MEMBER,
    "paths": PATH,
    "path_links": np.dtype(_SHORT),
    "lanes": LANE,
    "messages": MESSAGE,
    "own": np.dtype(_SHORT),  # messages of a rank in a step
    "own_first": np.dtype(_INT),  # of a step, rank by rank and one more: where the rank's messages begin in `own`
    "steps": np.dtype(_INT),  # of a group, step by step: where it begins in `own_first`
    "delays": np.dtype(_REAL),  # of a group, rank by rank, step by step
    "early": np.dtype(_INT),  # of a group, message by message: how many came before their receiver
    "ranks": RANK,
    "groups": GROUP,
    "notifications": NOTIFICATION,
    "noted": NOTED,  # instants since the last lockstep
    "in_lockstep": np.dtype(_INT),  # groups in lockstep
    "free": np.dtype(_INT),  # rows of `flows`
    "started": np.dtype(_INT),  # flows of this instant
    "left": np.dtype(_INT),  # links of this instant that have lost a flow
    "risen": np.dtype(_INT),  # flows of this solve
    "changed": np.dtype(_INT),  # flows of this share that have a new rate
    "held": np.dtype(_INT),  # flows on the links that were tried
    "tried": np.dtype(_INT),  # links of this share
}
STATE = np.dtype(
    [
        *_CLOCK,
        *_COUNTS,
        ("then", np.dtype(_COUNTS)),  # the counts at the last lockstep
        ("arrivals", HEAP),  # flows, by when they reach their links
        ("ends", HEAP),  # flows, by when they end
        ("pauses", HEAP),  # ranks, by when they go on
        ("full", HEAP),  # links, by the level at which they are full
        *[(name, _INT) for name in TABLES],  # the address of each
    ]
)


class Growth:
    """Whether any array has been replaced since this was last read."""

    def __init__(self) -> None:
        self.has_been = True


class Pool:
    """Rows that are only ever added, in an array that grows by doubling."""

    def __init__(self, kind: np.dtype[Any], growth: Growth):
        self.array = np.zeros(16, kind)
        self.num_rows = 0
        self._growth = growth

    def add(self, rows: np.ndarray) -> int:
        """Add rows; return the number of the first."""
        first = self._take(len(rows))
        self.array[first : self.num_rows] = rows
        return first

    def add_one(self, row: tuple[Any, ...]) -> int:
        """Add a row; return its number."""
        number = self._take(1)
        self.array[number] = row
        return number

    def _take(self, num_rows: int) -> int:
        first, last = self.num_rows, self.num_rows + num_rows
        if last > len(self.array):
            self.array = grown(self.array, last)
            self._growth.has_been = True
        self.num_rows = last
        return first


def grown(array: np.ndarray, num_rows: int) -> np.ndarray:
    """Return an array with at least so many rows, twice as many as before, that begins with these."""
    larger = np.zeros(max(num_rows, 2 * len(array)), array.dtype)
    larger[: len(array)] = array
    return larger


word = cast(Callable[[Any], int], np.int64)  # in kernels: widens a number that is stored in fewer bits

# In kernels: a row of a table, by its number.
link = row("links", TABLES["links"])
flow = row("flows", TABLES["flows"])
member = row("members", TABLES["members"])
path = row("paths", TABLES["paths"])
lane = row("lanes", TABLES["lanes"])
message = row("messages", TABLES["messages"])
rank = row("ranks", TABLES["ranks"])
group = row("groups", TABLES["groups"])
notification = row("notifications", TABLES["notifications"])
noted = row("noted", TABLES["noted"])

# In kernels: the tables of plain numbers.
path_links = table("path_links", TABLES["path_links"])
own = table("own", TABLES["own"])
own_first = table("own_first", TABLES["own_first"])
steps = table("steps", TABLES["steps"])
delays = table("delays", TABLES["delays"])
early = table("early", TABLES["early"])
free = table("free", TABLES["free"])
started = table("started", TABLES["started"])
left = table("left", TABLES["left"])
risen = table("risen", TABLES["risen"])
changed = table("changed", TABLES["changed"])
held = table("held", TABLES["held"])
tried = table("tried", TABLES["tried"])
in_lockstep = table("in_lockstep", TABLES["in_lockstep"])
