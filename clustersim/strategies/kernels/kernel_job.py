"""An asynchronous job in kernels: builds the tables of the job, runs the kernel, and copies the results back."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Sequence
from itertools import pairwise

import numpy as np

from clustersim.execution.job import Job, OnProgress
from clustersim.execution.window import PATIENCE, Window
from clustersim.execution.worker import issue_of
from clustersim.network.numba_engine.inner.network import KernelNetwork
from clustersim.network.numba_engine.inner.tables import Arrays
from clustersim.network.paths import BYTES_MOVED_PER_ADDED
from clustersim.network.python_engine.engine import PythonEngine
from clustersim.program import Iteration
from clustersim.program.issue import IterationIssue
from clustersim.strategies.kernels.run import run
from clustersim.strategies.kernels.tables import (
    BUCKET,
    DEEP,
    FLAT,
    GRADIENT,
    LOG,
    QUEUE,
    SHARD,
    STATE,
    TASK,
    WORKER_ROW,
)

_EVENTS_PER_CALL = 200_000  # Ctrl-C cannot interrupt a call
_FIRST_ITERATIONS = 16  # whose durations are computed before the first call
_NONE = -1


class KernelJob:
    """The workers of a job and their servers at `nodes` [num_servers], in tables for kernels.

    Servers update after every `gradients_per_update` gradients of any workers, and workers do not wait for updates.
    """

    def __init__(self, job: Job, window: Window, nodes: Sequence[Hashable], gradients_per_update: int):
        self._job, self._window, self._gradients_per_update = job, window, gradients_per_update
        self._nodes = [job.network.topology.node(node) for node in nodes]
        self._num_buckets, self._num_servers = len(job.buckets), len(nodes)
        self._num_tasks = job.num_ranks * (1 + self._num_buckets * (1 + self._num_servers)) + 1
        self._state = Arrays(np.zeros(1, STATE))
        record = self._state.record
        engine = job.network.engine
        assert isinstance(engine, PythonEngine), "a network that nothing else uses has the Python engine"
        self._wires = KernelNetwork(record["wires"], engine, job.network.topology, self._num_tasks)
        self._set_scalars()
        self._state.set(**self._workers(), **self._sizes(), **self._gradients(), tasks=self._tasks())
        self._state.set(log=np.zeros(self._num_gradients(), LOG), seconds=np.zeros(0), issued_s=np.zeros(0))
        self._wires.begin(np.arange(job.num_ranks))

    def run(self, on_progress: OnProgress) -> float:
        """Run the job to the end of the measurement; note all times in the job, and return the time of the end."""
        has_ended = False
        while not has_ended:
            self._wires.lay_wanted()
            self._make_room()
            has_ended = bool(run(self._state.record, _EVENTS_PER_CALL))
            total = self._window.num_before + self._window.num_counted
            on_progress(min(1.0, int(self._state.record["num_updates"][0]) / total))
        assert self._state.record["wires"]["is_over"][0], "workers that do not wait never stop by themselves"
        self._wires.hand_back()
        self._note_window()
        return float(self._state.record["wires"]["now_s"][0])

    def note_updates(self, learning_rate: Callable[[int], float]) -> None:
        """Fill the update log of the job; `learning_rate(staleness)` is the relative learning rate of a gradient."""
        rows = self._state["log"][: int(self._state.record["num_logged"][0])]
        staleness = rows["version_written"] - 1 - rows["version_read"]
        kinds, kind = np.unique(staleness, return_inverse=True)
        columns = {name: rows[name] for name in LOG.names or ()}
        columns["learning_rate"] = np.array([learning_rate(each) for each in kinds.tolist()])[kind]
        columns["accepted"] = np.ones(len(rows))
        for name, values in columns.items():
            column: array[float] = getattr(self._job.updates, name)
            column.frombytes(values.astype(column.typecode).tobytes())

    def _set_scalars(self) -> None:
        job, window = self._job, self._window
        scalars = {
            "num_tasks": self._num_tasks,
            "num_ranks": job.num_ranks,
            "num_buckets": self._num_buckets,
            "num_servers": self._num_servers,
            "is_staged": job.is_staged,
            "adds": self._gradients_per_update > 1 and job.network.adds,
            "gradients_per_update": self._gradients_per_update,
            "num_before": window.num_before,
            "num_counted": window.num_counted,
            "timeout_iterations": PATIENCE,
            "start_s": np.inf,
            "end_of_window_s": np.inf,
            "num_unfinished": job.num_ranks,
            "last_begun": _NONE,
        }
        for name, value in scalars.items():
            self._state.record[name] = value

    def _tasks(self) -> np.ndarray:
        """Return the tasks: workers, their bucket deliveries, the requests of these, and the timeout of the window."""
        ranks, buckets, servers = (np.arange(n) for n in (self._job.num_ranks, self._num_buckets, self._num_servers))
        deliveries = np.stack(np.meshgrid(ranks, buckets, [0], indexing="ij"), axis=-1).reshape(-1, 3)
        requests = np.stack(np.meshgrid(ranks, buckets, servers, indexing="ij"), axis=-1).reshape(-1, 3)
        workers = np.stack([ranks, 0 * ranks, 0 * ranks], axis=-1)
        rows = np.zeros(self._num_tasks, TASK)
        rows["kind"] = np.repeat(range(4), [len(workers), len(deliveries), len(requests), 1])
        columns = np.concatenate([workers, deliveries, requests, [[0, 0, 0]]])
        for name, column in zip(("rank", "bucket", "server"), columns.T, strict=True):
            rows[name] = column
        return rows

    def _workers(self) -> dict[str, np.ndarray]:
        """Return the workers, the queues, and the paths between them and the servers."""
        job, between, node = self._job, self._wires.between, self._job.network.topology.node
        num_ranks, num_servers = job.num_ranks, self._num_servers
        rows, queues = np.zeros(num_ranks, WORKER_ROW), np.zeros(num_servers + 2 * num_ranks, QUEUE)
        rows["iteration"] = rows["gradient_iteration"] = queues["first"] = _NONE
        rows["is_counted"], rows["gpu"] = 1, job.gpus
        buffers, gpus = [node(each) for each in job.buffer_nodes()], [node(device.node) for device in job.devices]
        ends = list(zip(gpus, buffers, strict=True))
        rows["copy_out"] = [between(gpu, buffer) for gpu, buffer in ends]
        pushes = [between(buffer, server) for buffer in buffers for server in self._nodes]
        adding = [self._wires.adding(server) for server in self._nodes]
        pulls = [between(server, buffer) for buffer in buffers for server in self._nodes]
        rows["copy_in"] = [between(buffer, gpu) for gpu, buffer in ends]
        paths = {"pushes": np.array(pushes), "pulls": np.array(pulls), "adding": np.array(adding)}
        return {"workers": rows, "queues": queues, **paths}

    def _sizes(self) -> dict[str, np.ndarray]:
        """Return the bytes that are sent, added and updated for each bucket and each shard."""
        job, per_byte = self._job, self._job.update_bytes_per_byte
        sizes = np.array([bucket.num_bytes for bucket in job.buckets])
        buckets, shards = np.zeros(len(sizes), BUCKET), np.zeros(len(sizes) * self._num_servers, SHARD)
        buckets["out_bytes"], buckets["in_bytes"] = sizes, sizes * job.wire.back_per_byte
        parts = np.repeat(sizes / self._num_servers, self._num_servers)
        shards["push_bytes"], shards["pull_bytes"] = parts, parts * job.wire.back_per_byte
        shards["added_bytes"] = parts * job.wire.added_per_byte * BYTES_MOVED_PER_ADDED
        shards["update_bytes"] = (
            parts * per_byte / BYTES_MOVED_PER_ADDED * BYTES_MOVED_PER_ADDED
        )  # rounded as in `Network.add`
        return {"buckets": buckets, "shards": shards}

    def _gradients(self) -> dict[str, np.ndarray]:
        """Return empty tables for the gradients of all workers and those that wait for their update."""
        num_pending = self._num_buckets * self._num_servers * self._gradients_per_update
        num = self._job.num_ranks + num_pending
        return {
            "gradients": np.zeros(num, GRADIENT),
            "free": self._all_free(num),
            "pending": np.zeros(num_pending, int),
        }

    def _all_free(self, num: int) -> np.ndarray:
        self._state.record["num_free"] = num
        return np.arange(num)

    def _num_gradients(self) -> int:
        """Return the expected number of gradients."""
        return (
            self._window.num_before + self._window.num_counted
        ) * self._gradients_per_update + 2 * self._job.num_ranks

    def _make_room(self) -> None:
        """Enlarge the tables of iterations and of logged gradients, if they are full."""
        record, job = self._state.record, self._job
        if record["last_begun"][0] + 1 >= record["num_planned"][0]:
            planned = int(record["num_planned"][0])
            more = max(_FIRST_ITERATIONS, planned // 4)
            job.times.extend_to(planned + more - 1)
            record["num_planned"], record["capacity"] = planned + more, job.times.begin_s.shape[1]
            pieces = [self._work(iteration) for iteration in range(planned, planned + more)]
            for name, parts in zip(("seconds", "issued_s"), zip(*pieces, strict=True), strict=True):
                self._state.set(**{name: np.concatenate([self._state[name], *parts])})
            self._state.set(**{name: getattr(job.times, name) for name in FLAT + DEEP})
        if record["num_logged"][0] + self._gradients_per_update > record["log_capacity"][0]:
            log = self._state["log"]
            rows = np.concatenate([log, np.zeros_like(log)]) if record["num_logged"][0] else log
            self._state.set(log=rows)
            record["log_capacity"] = len(rows)

    def _work(self, iteration: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the durations of all pieces of work in an iteration, rank by rank [num_ranks x num_pieces].

        They count from the last wait for the host, where there is one. The second array is when that ends, in seconds
        after the iteration began, or else negative.
        """
        pieces: list[np.ndarray] = []
        waits: list[np.ndarray] = []
        previous: Iteration | None = None
        for rank in range(self._job.num_ranks):
            plan, slowdown = self._job.plans(rank, iteration), self._job.slowdown(rank, iteration)
            if plan is not previous:
                previous, work_s = plan, _pieces(plan)
                never = np.full(len(work_s), -1.0)
            issue = issue_of(self._job, plan, slowdown)
            if issue is None:
                pieces.append(work_s * slowdown)
                waits.append(never)
                continue
            seconds, issued_s, waited_s = _issued_pieces(plan, slowdown, issue)
            self._job.times.host_s[rank, iteration] = waited_s
            pieces.append(seconds)
            waits.append(issued_s)
        return np.concatenate(pieces), np.concatenate(waits)

    def _note_window(self) -> None:
        record, window = self._state.record, self._window
        window.start_s, window.end_s = float(record["start_s"][0]), float(record["end_of_window_s"][0])
        window.first_row, window.last_row = int(record["first_row"][0]), int(record["last_row"][0])
        window.num_updates = int(record["num_updates"][0])


def _pieces(plan: Iteration) -> np.ndarray:
    """Return the seconds of forward, of backward up to each bucket, and of the rest, negative if there is none."""
    if plan.issue is not None:
        cuts_s = plan.cuts_s.tolist()
        pieces_s = [until_s - since_s for since_s, until_s in pairwise([0.0, *cuts_s])]
    else:
        pieces_s = [*plan.parts_s]
    return np.array([*pieces_s[:-1], pieces_s[-1] if plan.parts_s[-1] > 0 else -1.0])


def _issued_pieces(plan: Iteration, slowdown: float, issue: IterationIssue) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the same at a slowdown, after the last wait for the host; when that ends; and the seconds of all waits.

    A wait ends some seconds after the iteration began; negative where the GPU does not wait.
    """
    pieces_s, issued_s = _pieces(plan) * slowdown, np.full(len(plan.cuts_s), -1.0)
    now_s = done_s = waited_s = 0.0
    before = 0
    for cut, (end, cut_s) in enumerate(zip(issue.num_before.tolist(), plan.cuts_s.tolist(), strict=True)):
        part, start_s = issue.passes.between(before, end, done_s), now_s
        found = part.last_wait(start_s, 0.0, slowdown)
        now_s += (cut_s - done_s) * slowdown
        if found is not None:
            issued_s[cut], left_s = found[0], max(0.0, slowdown * (cut_s - done_s - found[1]))
            pieces_s[cut], now_s, waited_s = left_s, found[0] + left_s, waited_s + found[0] + left_s - now_s
        elif end > before and pieces_s[cut] < 0:
            pieces_s[cut] = 0.0
        before, done_s = end, cut_s
    return pieces_s, issued_s, max(0.0, waited_s)
