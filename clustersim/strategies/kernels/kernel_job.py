"""A job of workers out of step as the kernels see it: made from the job, played, and noted down in the job again."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Sequence

import numpy as np

from clustersim.execution.job import Job, OnProgress
from clustersim.execution.window import PATIENCE, Window
from clustersim.network.numba_engine.inner.network import KernelNetwork
from clustersim.network.numba_engine.inner.tables import Arrays
from clustersim.network.paths import BYTES_MOVED_PER_ADDED
from clustersim.network.python_engine.engine import PythonEngine
from clustersim.program import Iteration
from clustersim.strategies.kernels.play import play
from clustersim.strategies.kernels.tables import (
    BUCKET,
    DEEP,
    FLAT,
    GRADIENT,
    LOG,
    QUEUE,
    SHARD,
    TASK,
    WORKER_ROW,
    WORLD,
)

_AT_A_TIME = 200_000  # that are served in one call, which Ctrl-C cannot interrupt
_FIRST_ITERATIONS = 16  # for which it is worked out how long the work takes, before anybody begins
_NONE = -1


class KernelJob:
    """The rounds of all workers between their GPUs and the servers at `nodes` [num_servers].

    Servers update with every `per_update` gradients, whoever's they are, and nobody waits for that.
    """

    def __init__(self, job: Job, window: Window, nodes: Sequence[Hashable], per_update: int):
        self._job, self._window, self._per_update = job, window, per_update
        self._nodes = [job.network.topology.node(node) for node in nodes]
        self._num_buckets, self._num_servers = len(job.buckets), len(nodes)
        self._num_tasks = job.num_ranks * (1 + self._num_buckets * (1 + self._num_servers)) + 1
        self._world = Arrays(np.zeros(1, WORLD))
        record = self._world.record
        engine = job.network.engine
        assert isinstance(engine, PythonEngine), "an unused network is on the Python engine"
        self._wires = KernelNetwork(record["wires"], engine, job.network.topology, self._num_tasks)
        self._set_numbers()
        self._world.set(**self._workers(), **self._sizes(), **self._gradients(), tasks=self._tasks())
        self._world.set(log=np.zeros(self._num_gradients(), LOG), seconds=np.zeros(0))
        self._wires.begin(np.arange(job.num_ranks))

    def play(self, tell: OnProgress) -> float:
        """Play until all that counts is done; note it down in the job, and return when that is."""
        is_over = False
        while not is_over:
            self._wires.lay_wanted()
            self._make_room()
            is_over = bool(play(self._world.record, _AT_A_TIME))
            counted = self._window.num_before + self._window.num_counted
            tell(min(1.0, int(self._world.record["num_updates"][0]) / counted))
        assert self._world.record["wires"]["is_over"][0], "workers who wait for nobody go on"
        self._wires.hand_back()
        self._note_window()
        return float(self._world.record["wires"]["now_s"][0])

    def note_updates(self, rate_of: Callable[[int], float]) -> None:
        """Fill the job's update log; `rate_of(staleness)` is the learning rate of a gradient."""
        rows = self._world["log"][: int(self._world.record["num_logged"][0])]
        staleness = rows["version_written"] - 1 - rows["version_read"]
        kinds, kind = np.unique(staleness, return_inverse=True)
        columns = {name: rows[name] for name in LOG.names or ()}
        columns["learning_rate"] = np.array([rate_of(each) for each in kinds.tolist()])[kind]
        columns["accepted"] = np.ones(len(rows))
        for name, values in columns.items():
            column: array[float] = getattr(self._job.updates, name)
            column.frombytes(values.astype(column.typecode).tobytes())

    def _set_numbers(self) -> None:
        job, window = self._job, self._window
        numbers = {
            "num_tasks": self._num_tasks,
            "num_ranks": job.num_ranks,
            "num_buckets": self._num_buckets,
            "num_servers": self._num_servers,
            "is_staged": job.is_staged,
            "adds": self._per_update > 1 and job.network.adds,
            "per_update": self._per_update,
            "num_before": window.num_before,
            "num_counted": window.num_counted,
            "patience": PATIENCE,
            "start_s": np.inf,
            "end_of_window_s": np.inf,
            "num_unfinished": job.num_ranks,
            "furthest": _NONE,
        }
        for name, number in numbers.items():
            self._world.record[name] = number

    def _tasks(self) -> np.ndarray:
        """Return everybody on the clock: workers, their deliveries, the errands of those, and the window's patience."""
        ranks, buckets, servers = (np.arange(n) for n in (self._job.num_ranks, self._num_buckets, self._num_servers))
        deliveries = np.stack(np.meshgrid(ranks, buckets, [0], indexing="ij"), axis=-1).reshape(-1, 3)
        errands = np.stack(np.meshgrid(ranks, buckets, servers, indexing="ij"), axis=-1).reshape(-1, 3)
        workers = np.stack([ranks, 0 * ranks, 0 * ranks], axis=-1)
        rows = np.zeros(self._num_tasks, TASK)
        rows["kind"] = np.repeat(range(4), [len(workers), len(deliveries), len(errands), 1])
        places = np.concatenate([workers, deliveries, errands, [[0, 0, 0]]])
        for name, column in zip(("rank", "bucket", "server"), places.T, strict=True):
            rows[name] = column
        return rows

    def _workers(self) -> dict[str, np.ndarray]:
        """Return the workers, the queues, and the paths between them and the servers."""
        job, between, node = self._job, self._wires.between, self._job.network.topology.node
        num_ranks, num_servers = job.num_ranks, self._num_servers
        rows, queues = np.zeros(num_ranks, WORKER_ROW), np.zeros(num_servers + 2 * num_ranks, QUEUE)
        rows["iteration"] = rows["gradient_iteration"] = queues["first"] = _NONE
        rows["is_counted"] = 1
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
        """Return what is sent, added and updated of each bucket, and of its share at each server."""
        job, per_byte = self._job, self._job.update_bytes_per_byte
        sizes = np.array([bucket.num_bytes for bucket in job.buckets])
        buckets, shards = np.zeros(len(sizes), BUCKET), np.zeros(len(sizes) * self._num_servers, SHARD)
        buckets["out_bytes"], buckets["in_bytes"] = sizes, sizes * job.wire.back_per_byte
        parts = np.repeat(sizes / self._num_servers, self._num_servers)
        shards["push_bytes"], shards["pull_bytes"] = parts, parts * job.wire.back_per_byte
        shards["added_bytes"] = parts * job.wire.added_per_byte * BYTES_MOVED_PER_ADDED
        shards["update_bytes"] = (
            parts * per_byte / BYTES_MOVED_PER_ADDED * BYTES_MOVED_PER_ADDED
        )  # as `Network.add` has
        return {"buckets": buckets, "shards": shards}

    def _gradients(self) -> dict[str, np.ndarray]:
        """Return room for gradients: each worker's, and those that are pending."""
        num_pending = self._num_buckets * self._num_servers * self._per_update
        num = self._job.num_ranks + num_pending
        return {
            "gradients": np.zeros(num, GRADIENT),
            "free": self._all_free(num),
            "pending": np.zeros(num_pending, int),
        }

    def _all_free(self, num: int) -> np.ndarray:
        self._world.record["num_free"] = num
        return np.arange(num)

    def _num_gradients(self) -> int:
        """Return how many gradients are expected."""
        return (self._window.num_before + self._window.num_counted) * self._per_update + 2 * self._job.num_ranks

    def _make_room(self) -> None:
        """Let there be room for more iterations and gradients, if it is short."""
        record, job = self._world.record, self._job
        if record["furthest"][0] + 1 >= record["known"][0]:
            known = int(record["known"][0])
            more = max(_FIRST_ITERATIONS, known // 4)
            job.times.make_room(known + more - 1)
            record["known"], record["room"] = known + more, job.times.begin_s.shape[1]
            seconds = [self._seconds(iteration) for iteration in range(known, known + more)]
            self._world.set(seconds=np.concatenate([self._world["seconds"], *seconds]))
            self._world.set(**{name: getattr(job.times, name) for name in FLAT + DEEP})
        if record["num_logged"][0] + self._per_update > record["most_logged"][0]:
            log = self._world["log"]
            rows = np.concatenate([log, np.zeros_like(log)]) if record["num_logged"][0] else log
            self._world.set(log=rows)
            record["most_logged"] = len(rows)

    def _seconds(self, iteration: int) -> np.ndarray:
        """Return how long each piece of all workers' work takes in an iteration [num_ranks x num_pieces]."""
        pieces: list[np.ndarray] = []
        before: Iteration | None = None
        for rank in range(self._job.num_ranks):
            plan = self._job.plans(rank, iteration)
            if plan is not before:
                before, work_s = plan, _pieces(plan)
            pieces.append(work_s * self._job.slowdown(rank, iteration))
        return np.concatenate(pieces)

    def _note_window(self) -> None:
        record, window = self._world.record, self._window
        window.start_s, window.end_s = float(record["start_s"][0]), float(record["end_of_window_s"][0])
        window.first_row, window.last_row = int(record["first_row"][0]), int(record["last_row"][0])
        window.num_updates = int(record["num_updates"][0])


def _pieces(plan: Iteration) -> np.ndarray:
    """Return the seconds of forward, of backward to each bucket, and of the rest, negative where there is none."""
    ready_s = [bucket.ready_s for bucket in plan.buckets]
    rest_s = plan.backward_s - ready_s[-1] if plan.backward_s > ready_s[-1] else -1.0
    return np.array([plan.forward_s, *np.diff(ready_s, prepend=0.0), rest_s])
