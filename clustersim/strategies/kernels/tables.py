"""The tables of a job in kernels: a row for everybody on the clock, for each worker, shard, gradient and queue."""

from __future__ import annotations

from typing import Any

import numpy as np

from clustersim.network.numba_engine.inner.tables import NETWORK
from clustersim.network.numba_engine.jit import row, table

_INT, _REAL = np.int64, np.float64

# who is on the clock
WORKER, DELIVERY, ERRAND, PATIENCE = range(4)

TASK = np.dtype(
    [
        ("kind", _INT),
        ("stage", _INT),  # how far it has come
        ("rank", _INT),
        ("bucket", _INT),
        ("server", _INT),
        ("is_process", _INT),  # whether it goes on beside whoever has begun it, and not in its place
        ("is_over", _INT),  # whether it has ended, and who waits could have heard of it
        ("may_follow", _INT),  # of a delivery: whether the one ahead of it has been pushed
        ("num_back", _INT),  # how many of those that it has begun it has waited for
        ("behind", _INT),  # the next in its queue
    ]
)
WORKER_ROW = np.dtype(
    [
        ("iteration", _INT),
        ("version", _INT),  # of the model that it read last
        ("gradient", _INT),
        ("gradient_iteration", _INT),
        ("is_counted", _INT),  # whether the window has yet to see it end an iteration
        ("copy_out", _INT),  # paths from its memory to its host's, and back
        ("copy_in", _INT),
    ]
)
SHARD = np.dtype(
    [
        ("push_bytes", _REAL),
        ("pull_bytes", _REAL),
        ("added_bytes", _REAL),  # that adding a part moves
        ("update_bytes", _REAL),  # that an update moves
        ("num_pending", _INT),
    ]
)
BUCKET = np.dtype([("out_bytes", _REAL), ("in_bytes", _REAL)])  # copied where the transport stages in host memory
GRADIENT = np.dtype([("rank", _INT), ("version_read", _INT), ("parts_left", _INT)])
QUEUE = np.dtype([("is_busy", _INT), ("first", _INT), ("last", _INT)])
LOG = np.dtype([("time_s", _REAL), ("worker", _INT), ("version_read", _INT), ("version_written", _INT)])

FLAT = ("begin_s", "forward_s", "computed_s", "exchanged_s", "end_s")
DEEP = ("ready_s", "enter_s", "left_s", "back_s")
"""Columns of the timesheet [num_ranks, num_iterations], and those with [..., num_buckets]."""

TABLES: dict[str, np.dtype[Any]] = {
    "tasks": TASK,
    "workers": WORKER_ROW,
    "buckets": BUCKET,
    "shards": SHARD,
    "pending": np.dtype(_INT),  # gradients, shard by shard
    "gradients": GRADIENT,
    "free": np.dtype(_INT),  # rows of `gradients`
    "queues": QUEUE,  # those of the servers, then of the workers' engines that copy out, then in
    "pushes": np.dtype(_INT),  # paths from each worker to each server
    "pulls": np.dtype(_INT),  # and back
    "adding": np.dtype(_INT),  # paths of adding at each server
    "seconds": np.dtype(_REAL),  # of work: iteration by iteration, worker by worker
    "log": LOG,
    **{name: np.dtype(_REAL) for name in FLAT + DEEP},
}
WORLD = np.dtype(
    [
        ("wires", NETWORK),
        ("num_tasks", _INT),
        ("num_ranks", _INT),
        ("num_buckets", _INT),
        ("num_servers", _INT),
        ("is_staged", _INT),
        ("adds", _INT),  # whether a part is added by itself before an update
        ("per_update", _INT),  # gradients that an update takes
        ("num_applied", _INT),  # gradients that are in the model
        ("num_free", _INT),
        ("num_logged", _INT),
        ("most_logged", _INT),  # gradients that there is room for in the log
        ("room", _INT),  # iterations that can be noted, and of which it is known how long the work takes
        ("known", _INT),
        ("furthest", _INT),  # iteration that anybody has begun
        ("num_before", _INT),  # the window: see `Window`
        ("num_counted", _INT),
        ("patience", _REAL),
        ("num_updates", _INT),
        ("start_s", _REAL),
        ("end_of_window_s", _REAL),
        ("first_row", _INT),
        ("last_row", _INT),
        ("longest_s", _REAL),
        ("num_unfinished", _INT),
        *[(name, _INT) for name in TABLES],  # the address of each
    ]
)

# In kernels: a row of a table, by its number.
task = row("tasks", TASK)
worker = row("workers", WORKER_ROW)
bucket = row("buckets", BUCKET)
shard = row("shards", SHARD)
gradient = row("gradients", GRADIENT)
queue = row("queues", QUEUE)
logged = row("log", LOG)

# In kernels: the tables of plain numbers.
pending = table("pending", TABLES["pending"])
free = table("free", TABLES["free"])
pushes = table("pushes", TABLES["pushes"])
pulls = table("pulls", TABLES["pulls"])
adding = table("adding", TABLES["adding"])
seconds = table("seconds", TABLES["seconds"])
begin_s = table("begin_s", TABLES["begin_s"])
forward_s = table("forward_s", TABLES["forward_s"])
computed_s = table("computed_s", TABLES["computed_s"])
exchanged_s = table("exchanged_s", TABLES["exchanged_s"])
end_s = table("end_s", TABLES["end_s"])
ready_s = table("ready_s", TABLES["ready_s"])
enter_s = table("enter_s", TABLES["enter_s"])
left_s = table("left_s", TABLES["left_s"])
back_s = table("back_s", TABLES["back_s"])
