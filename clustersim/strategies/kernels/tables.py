"""The tables of a job in kernels: one row for each task, worker, bucket, shard, gradient and queue."""

from __future__ import annotations

from typing import Any

import numpy as np

from clustersim.network.numba_engine.inner.tables import NETWORK
from clustersim.network.numba_engine.jit import row, table

_INT, _REAL = np.int64, np.float64

# kinds of tasks
WORKER, BUCKET_DELIVERY, SERVER_REQUEST, WINDOW_TIMEOUT = range(4)

TASK = np.dtype(
    [
        ("kind", _INT),
        ("stage", _INT),  # the next stage to run
        ("rank", _INT),
        ("bucket", _INT),
        ("server", _INT),
        ("is_process", _INT),  # whether it runs in parallel with its caller, and not in place of it
        ("has_ended", _INT),  # whether it has ended and its end has been announced
        ("is_previous_pushed", _INT),  # of a delivery: whether the previous bucket has been pushed
        ("num_ended", _INT),  # the number of processes that it has started and whose end it has noticed
        ("next", _INT),  # the next task in its queue
    ]
)
WORKER_ROW = np.dtype(
    [
        ("iteration", _INT),
        ("version", _INT),  # the version of the model that it has read
        ("gradient", _INT),
        ("gradient_iteration", _INT),
        ("gpu", _INT),  # the number of its GPU
        ("is_counted", _INT),  # whether the window still waits for it to end an iteration
        ("copy_out", _INT),  # paths from GPU to host memory, and back
        ("copy_in", _INT),
    ]
)
SHARD = np.dtype(
    [
        ("push_bytes", _REAL),
        ("pull_bytes", _REAL),
        ("added_bytes", _REAL),  # bytes that the addition of a part moves
        ("update_bytes", _REAL),  # bytes that an update moves
        ("num_pending", _INT),
    ]
)
BUCKET = np.dtype([("out_bytes", _REAL), ("in_bytes", _REAL)])  # copied if the transport stages in host memory
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
    "pending": np.dtype(_INT),  # gradients that wait for their update, shard by shard
    "gradients": GRADIENT,
    "free": np.dtype(_INT),  # unused rows of `gradients`
    "queues": QUEUE,  # of the servers, then of the engines that copy out, then of those that copy in
    "pushes": np.dtype(_INT),  # paths from each worker to each server
    "pulls": np.dtype(_INT),  # and back, also worker by worker
    "adding": np.dtype(_INT),  # paths of additions at each server
    "seconds": np.dtype(_REAL),  # durations of work: iteration by iteration, worker by worker
    "issued_s": np.dtype(_REAL),  # of the same: when the host lets it go on after the last wait; negative without one
    "log": LOG,
    **{name: np.dtype(_REAL) for name in FLAT + DEEP},
}
STATE = np.dtype(
    [
        ("wires", NETWORK),
        ("num_tasks", _INT),
        ("num_ranks", _INT),
        ("num_buckets", _INT),
        ("num_servers", _INT),
        ("is_staged", _INT),
        ("adds", _INT),  # whether adding a part takes time of its own before an update
        ("gradients_per_update", _INT),
        ("num_applied", _INT),  # gradients
        ("num_free", _INT),
        ("num_logged", _INT),
        ("log_capacity", _INT),  # gradients
        ("capacity", _INT),  # iterations that the timesheet has room for
        ("num_planned", _INT),  # iterations whose durations are in `seconds`
        ("last_begun", _INT),  # the last iteration that any worker has begun
        ("num_before", _INT),  # from here on: the window, see `Window`
        ("num_counted", _INT),
        ("timeout_iterations", _REAL),
        ("num_updates", _INT),
        ("start_s", _REAL),
        ("end_of_window_s", _REAL),
        ("first_row", _INT),
        ("last_row", _INT),
        ("longest_s", _REAL),
        ("num_unfinished", _INT),
        *[(name, _INT) for name in TABLES],  # the address of each table
    ]
)

# In kernels: a row of a table by its number.
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
issued_s = table("issued_s", TABLES["issued_s"])
begin_s = table("begin_s", TABLES["begin_s"])
forward_s = table("forward_s", TABLES["forward_s"])
computed_s = table("computed_s", TABLES["computed_s"])
exchanged_s = table("exchanged_s", TABLES["exchanged_s"])
end_s = table("end_s", TABLES["end_s"])
ready_s = table("ready_s", TABLES["ready_s"])
enter_s = table("enter_s", TABLES["enter_s"])
left_s = table("left_s", TABLES["left_s"])
back_s = table("back_s", TABLES["back_s"])
