"""A job: the workers of one training run on the simulated clock, and the times and updates that they record."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import simpy

from clustersim.communicator.sm_share import uses_sms
from clustersim.devices import GpuDevice, InputStage, SharedRate
from clustersim.execution.window import Window
from clustersim.hardware.sheet import Transport
from clustersim.learning.order import ReplicaEvents
from clustersim.network import Network
from clustersim.program import Bucket, Iteration, Wire
from clustersim.results import Timesheet, UpdateLog
from clustersim.stragglers import Pace

OnProgress = Callable[[float], None]
"""Called with the share of the work that is done, 0 to 1."""

ENDLESS = 1 << 40
"""The number of iterations of a job that runs until its clock is stopped."""

_INITIAL_ITERATIONS = 64
"""Iterations that a timesheet has room for at first; it grows. `num_iterations` counts updates and may be far more."""

RankWork = Callable[["Job", int, int, Callable[[int, Bucket], None] | None], Generator[simpy.Event, Any, Any]]
"""Runs one iteration of a rank: (job, rank, iteration, callback for each bucket that is ready, or None)."""


@dataclass
class Job:
    """The workers on `gpus` [num_ranks]. Each runs through the iterations `plans(rank, iteration)`.

    Speed: compute takes `slowdown(rank, iteration)` times as long, and follows the rank's pace over time where there
    are `paces` [num_ranks]. The plans are those of the slowest GPU that a rank waits for: `slowest` [num_ranks] times
    as long as those of the mean GPU. `num_iterations` updates count, after a warm-up.

    Bytes: the optimizer moves `update_bytes_per_byte` bytes for each byte of gradient, which is the cost of an update
    in a server's memory. Each number of a gradient travels in `bytes_per_number`, and has `gradient_bytes` before any
    compression; `wire` says how compression changed the gradients. Kernels of a rank that only move bytes of GPU memory
    take `moved_s_per_byte` [num_ranks] at a slowdown of 1.

    Input: samples come from the `input_stage`; without one they are always there. `samples` are the batches on their
    way to a GPU's memory, by rank.

    What the strategy sets: the times of all ranks (`times`), the gradients applied to the model (`updates`), what
    workers at their own pace do with weights of their own (`replica_events`), the `algorithms` [num_buckets] that
    exchange the buckets, and which part of the run counts. That is all iterations from `num_warm_up` on but the last
    `num_after`, or the time inside the `window`. `gradient_of` maps an iteration to the one whose gradient its update
    applies, where that is an earlier one. `gradients_per_push` [num_ranks] is how many workers' gradients a rank adds
    to the model at a time: its own, or the sum of its host's. One update takes `gradients_per_update` of these. The
    busiest server that queues them works `server_s` seconds on each. `shortcuts` are sentences that say what was not
    simulated event by event.

    Hosts: `server_hosts` are hosts that only servers use. They join `hosts_in_use`, the hosts of all jobs on the
    cluster. Jobs also share the memories in which hosts update (`host_rates`, by node).

    Layouts: where a model is laid over several GPUs, the ranks of a job hold the same part of it, and other jobs hold
    the other parts. `work` runs a rank until its gradients are exchanged. It reaches a steady state after
    `num_settling` iterations. `ranks` [num_ranks] are the numbers of the job's ranks among all ranks. In a job that
    `is_folded`, all ranks are assumed to do the same at the same time and only the first is simulated;
    `stayed_in_sync` is False as soon as that is seen to be wrong.

    Events: `first_iteration_done` fires, if it is set, when all ranks have ended their first iteration.
    `computed_events` are ends of backward that another rank waits for, by (rank, iteration). `issuing_since_s` is when
    the host of a rank began to issue its latest iteration, in seconds: when the rank began it, and had its samples.
    """

    env: simpy.Environment
    network: Network
    transport: Transport
    gpus: np.ndarray
    plans: Callable[[int, int], Iteration]
    slowdown: Callable[[int, int], float]
    update_bytes_per_byte: float
    num_iterations: int
    bytes_per_number: float = 4.0
    gradient_bytes: float = 4.0
    moved_s_per_byte: np.ndarray = field(default_factory=lambda: np.zeros(1))
    seed: int = 0
    paces: Sequence[Pace] | None = None
    slowest: np.ndarray = field(default_factory=lambda: np.ones(1))
    input_stage: InputStage | None = None
    wire: Wire = field(default_factory=Wire)
    times: Timesheet = field(init=False)
    updates: UpdateLog = field(default_factory=UpdateLog)
    replica_events: ReplicaEvents = field(default_factory=ReplicaEvents)
    samples: dict[int, simpy.Event] = field(default_factory=dict)
    algorithms: tuple[str, ...] = ()
    shortcuts: tuple[str, ...] = ()
    num_warm_up: int = 0
    num_after: int = 0
    window: Window | None = None
    hosts_in_use: set[int] = field(default_factory=set)
    server_hosts: list[int] = field(default_factory=list)
    host_rates: dict[int, SharedRate] = field(default_factory=dict)
    work: RankWork | None = None
    num_settling: int = 0
    ranks: np.ndarray | None = None
    is_folded: bool = False
    stayed_in_sync: bool = True
    gradient_of: dict[int, int] = field(default_factory=dict)
    first_iteration_done: simpy.Event | None = None
    computed_events: dict[tuple[int, int], simpy.Event] = field(default_factory=dict)
    issuing_since_s: dict[int, float] = field(default_factory=dict)
    gradients_per_push: np.ndarray = field(init=False)
    gradients_per_update: int = field(init=False)
    server_s: float = 0.0

    def __post_init__(self) -> None:
        self.times = Timesheet.blank(self.num_ranks, min(self.num_iterations, _INITIAL_ITERATIONS), len(self.buckets))
        self.moved_s_per_byte = np.broadcast_to(self.moved_s_per_byte, (self.num_ranks,))
        self.gradients_per_push = np.ones(self.num_ranks, dtype=np.int64)
        self.gradients_per_update = self.num_ranks
        self._num_first_done = 0  # ranks that have ended their first iteration
        self.hosts_in_use.update(self.hosts.tolist())

    def note_computed(self, rank: int, iteration: int) -> None:
        """Record that a rank has ended backward, and fire the event that another rank may wait for."""
        self.times.computed_s[rank, iteration] = self.env.now
        if (event := self.computed_events.pop((rank, iteration), None)) is not None:
            event.succeed()

    def note_end(self, ranks: int | np.ndarray, iteration: int, end_s: float | np.ndarray) -> None:
        """Record when ranks end an iteration, in seconds; that time may lie in the future."""
        self.times.end_s[ranks, iteration] = end_s
        done = self.first_iteration_done
        if iteration or done is None:
            return
        self._num_first_done += np.size(ranks)
        if self._num_first_done == (1 if self.is_folded else self.num_ranks):
            last_s = float(np.nanmax(self.times.end_s[:, 0]))
            done._ok, done._value = True, None  # what `succeed` does, which cannot take a later time
            self.env.schedule(done, delay=max(0.0, last_s - self.env.now))

    def computed(self, rank: int, iteration: int) -> simpy.Event:
        """Return an event that fires when a rank has ended backward of an iteration that it has begun."""
        if not np.isnan(self.times.computed_s[rank, iteration]):
            return self.env.timeout(0.0)
        return self.computed_events.setdefault((rank, iteration), self.env.event())

    @property
    def can_use_kernels(self) -> bool:
        """Whether `strategies.kernels` give the same times: all ranks differ, and only the waits set their speed.

        Equal ranks do everything at the same times, and compiled kernels would order them otherwise than SimPy does. In
        an exact run all workers are processes. So they are where samples come from processes, and where the caller
        steps through every event, as a simulation of several jobs does.
        """
        has_other_waits = self.work is not None or self.input_stage is not None or self.paces is not None
        if self.network.exact or self.num_iterations >= ENDLESS or has_other_waits:
            return False
        first_s = {_forward_s(self.plans(rank, 0), self.slowdown(rank, 0)) for rank in range(self.num_ranks)}
        return self.network.is_unused and len(first_s) == self.num_ranks

    @cached_property
    def buckets(self) -> tuple[Bucket, ...]:
        """The buckets of every iteration. They are the same for all ranks, except for the time they are ready."""
        return self.plans(0, 0).buckets

    @property
    def num_filling(self) -> int:
        """Iterations until the prefetch queue can be full, or until ranks of a layout reach a steady state."""
        is_layout = self.work is not None
        return self.num_settling if is_layout or self.input_stage is None else self.input_stage.prefetch

    @property
    def num_ranks(self) -> int:
        """The number of ranks of this job."""
        return len(self.gpus)

    @cached_property
    def devices(self) -> list[GpuDevice]:
        """The GPU of each rank [num_ranks]."""
        paces = [None] * self.num_ranks if self.paces is None else self.paces
        shares = uses_sms(self.transport)
        return [
            GpuDevice(self.env, self.network, int(gpu), pace, shares)
            for gpu, pace in zip(self.gpus, paces, strict=True)
        ]

    @cached_property
    def hosts(self) -> np.ndarray:
        """The host of each rank [num_ranks]."""
        return np.asarray(self.network.topology.gpu_hosts[self.gpus])

    @property
    def is_staged(self) -> bool:
        """Whether messages start and end in host memory."""
        return self.transport.buffers == "host"

    def buffer_nodes(self) -> list[Hashable]:
        """Return the node where each rank's messages start and end [num_ranks]."""
        return [device.host_memory if self.is_staged else device.node for device in self.devices]


def _forward_s(plan: Iteration, slowdown: float) -> float:
    """Return the seconds of a forward pass at a slowdown, with the waits for the host."""
    if plan.issue is None:
        return plan.forward_s * slowdown
    start_s = np.zeros(1)
    return float(plan.issue.cut_ends_s(plan.cuts_s, start_s, np.array([slowdown]), start_s)[0, 0])
