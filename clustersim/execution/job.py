"""A job: the workers of one training run on the clock, and what they note down."""

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
from clustersim.network import Network
from clustersim.program import Bucket, Iteration, Wire
from clustersim.results import Timesheet, UpdateLog
from clustersim.stragglers import Pace

OnProgress = Callable[[float], None]
"""Called with the share of the work that is done, 0 to 1."""

ENDLESS = 1 << 40
"""The number of iterations of a job that goes on until its clock is stopped."""

_FIRST_NOTED = 64  # iterations that there is room for before anybody needs more: of updates there may be far more

Work = Callable[["Job", int, int, Callable[[int, Bucket], None] | None], Generator[simpy.Event, Any, Any]]
"""What a rank of a job does in an iteration, told by whom to hand its buckets over to as they are ready."""

INSIDE = "workers' days played on the network's own clock, not on SimPy's"
"""What is told where they are."""


@dataclass
class Job:
    """Workers on `gpus` [num_ranks]. Each goes through `plans(rank, iteration)`.

    What it computes is slowed by `slowdown(rank, iteration)`, and goes at the rank's pace where there are `paces`
    [num_ranks]. Its plans are those of the slowest GPU that it waits for, `slowest` [num_ranks] times as long as those
    of the mean one. `num_iterations` updates are to be counted, after those in which the job finds its pace.
    `update_bytes_per_byte` is how many bytes the optimizer moves for each byte of gradient, which is what an update
    costs in a server's memory; each of its numbers travels in `bytes_per_number`. Samples come from the `input_stage`,
    where there is one, and else are there; `samples` are the batches on their way to a GPU's memory, by rank. `wire`
    says what compression has made of gradients.

    The strategy notes down when everybody did what (`times`), which gradients met the model (`updates`), by which
    `algorithms` [num_buckets] buckets are exchanged, and what of the run counts: the iterations from `num_warm_up` on
    but for the last `num_after`, or what lies in its `window`. `pushed` [num_ranks] says how many workers' gradients a
    rank hands to the model at a time, its own or the sum of its host's; an update takes `gradients_per_update` of such.
    `shortcuts` says in words what is not played as it happens.
    `server_hosts` are hosts of their own that servers have been given, which join the `hosts_in_use` of all jobs on
    the cluster; these share the memories in which hosts update, too (`host_rates`, by node). Where a model is laid over
    several GPUs, the ranks of the job have the same part of it, and other jobs the others; `work` plays what a rank
    does until its gradients are exchanged, and takes `num_settling` iterations to find its pace. Among all ranks these
    are `ranks` [num_ranks]. Where a job `plays_as_one`, its ranks are taken to do the same at the same time, and the
    first does it for all; as far as is known they do (`has_kept_together`). Where somebody waits for it, `first_over`
    happens when all ranks have ended their first iteration. Somebody waits for `awaited` ends of backward, by rank and
    iteration.
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
    seed: int = 0
    paces: Sequence[Pace] | None = None
    slowest: np.ndarray = field(default_factory=lambda: np.ones(1))
    input_stage: InputStage | None = None
    wire: Wire = field(default_factory=Wire)
    times: Timesheet = field(init=False)
    updates: UpdateLog = field(default_factory=UpdateLog)
    samples: dict[int, simpy.Event] = field(default_factory=dict)
    algorithms: tuple[str, ...] = ()
    shortcuts: tuple[str, ...] = ()
    num_warm_up: int = 0
    num_after: int = 0
    window: Window | None = None
    clock: simpy.Environment = field(init=False)
    hosts_in_use: set[int] = field(default_factory=set)
    server_hosts: list[int] = field(default_factory=list)
    host_rates: dict[int, SharedRate] = field(default_factory=dict)
    work: Work | None = None
    num_settling: int = 0
    ranks: np.ndarray | None = None
    plays_as_one: bool = False
    has_kept_together: bool = True
    first_over: simpy.Event | None = None
    awaited: dict[tuple[int, int], simpy.Event] = field(default_factory=dict)
    pushed: np.ndarray = field(init=False)
    gradients_per_update: int = field(init=False)

    def __post_init__(self) -> None:
        self.clock = self.env
        self.times = Timesheet.blank(self.num_ranks, min(self.num_iterations, _FIRST_NOTED), len(self.buckets))
        self.pushed = np.ones(self.num_ranks, dtype=np.int64)
        self.gradients_per_update = self.num_ranks
        self._num_over = 0  # ranks that have ended their first iteration
        self.hosts_in_use.update(self.hosts.tolist())

    def go_inside(self) -> None:
        """Put the workers on the network's inner clock, where they wait for nothing but messages and each other.

        Not in an exact run, nor where samples come from processes on the outer clock, nor where somebody looks at
        every event of it, as one does who plays several jobs.
        """
        is_alone = self.num_iterations < ENDLESS and self.work is None and self.input_stage is None
        if is_alone and not self.network.exact:
            self.clock = self.network.inner_clock
            self.shortcuts = (INSIDE,)

    def note_computed(self, rank: int, iteration: int) -> None:
        """Note that a rank has gone forward and backward, and tell who waits for it."""
        self.times.computed_s[rank, iteration] = self.clock.now
        if (event := self.awaited.pop((rank, iteration), None)) is not None:
            event.succeed()

    def note_end(self, ranks: int | np.ndarray, iteration: int, end_s: float | np.ndarray) -> None:
        """Note when ranks end an iteration, which may be to come."""
        self.times.end_s[ranks, iteration] = end_s
        over = self.first_over
        if iteration or over is None:
            return
        self._num_over += np.size(ranks)
        if self._num_over == (1 if self.plays_as_one else self.num_ranks):
            last_s = float(np.nanmax(self.times.end_s[:, 0]))
            over._ok, over._value = True, None  # as `succeed` does, which knows of no later time
            self.env.schedule(over, delay=max(0.0, last_s - self.env.now))

    def computed(self, rank: int, iteration: int) -> simpy.Event:
        """Return what happens when a rank that has begun an iteration has gone forward and backward."""
        if not np.isnan(self.times.computed_s[rank, iteration]):
            return self.clock.timeout(0.0)
        return self.awaited.setdefault((rank, iteration), self.clock.event())

    @property
    def may_be_compiled(self) -> bool:
        """Whether workers are inside, all different, and nothing but what they wait for changes how quickly they go.

        Those who are alike do all things at the same times: who is first then is not the same in kernels as for
        processes on the network's compiled side.
        """
        first_s = {self.plans(rank, 0).forward_s * self.slowdown(rank, 0) for rank in range(self.num_ranks)}
        is_simple = self.clock is not self.env and self.paces is None and self.network.is_unused
        return is_simple and len(first_s) == self.num_ranks

    def outside(self, event: simpy.Event) -> simpy.Event:
        """Return an event on SimPy's clock that happens when one on the workers' does."""
        return event if self.clock is self.env else self.network.inner_clock.outside(event)

    @cached_property
    def buckets(self) -> tuple[Bucket, ...]:
        """What is exchanged in every iteration; the same for all ranks, but for when it is ready."""
        return self.plans(0, 0).buckets

    @property
    def num_filling(self) -> int:
        """How many iterations it takes at least until as many batches are prefetched as there can be.

        Or until ranks have found their pace that wait for each other from one iteration to the next.
        """
        is_executor = self.work is not None
        return self.num_settling if is_executor or self.input_stage is None else self.input_stage.prefetch

    @property
    def num_ranks(self) -> int:
        return len(self.gpus)

    @cached_property
    def devices(self) -> list[GpuDevice]:
        paces = [None] * self.num_ranks if self.paces is None else self.paces
        shares = uses_sms(self.transport)
        return [
            GpuDevice(self.clock, self.network, int(gpu), pace, shares)
            for gpu, pace in zip(self.gpus, paces, strict=True)
        ]

    @cached_property
    def hosts(self) -> np.ndarray:
        """[num_ranks] the host of each rank."""
        return np.asarray(self.network.topology.gpu_hosts[self.gpus])

    @property
    def is_staged(self) -> bool:
        """Whether messages start and end in host memory."""
        return self.transport.buffers == "host"

    def buffer_nodes(self) -> list[Hashable]:
        """Return where each rank's messages start and end [num_ranks]."""
        return [device.host_memory if self.is_staged else device.node for device in self.devices]
