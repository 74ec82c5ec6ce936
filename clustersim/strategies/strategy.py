"""The base class of all parallelism strategies."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import simpy
from pydantic import Field, field_validator

from clustersim.errors import Mistake
from clustersim.execution.job import Job, OnProgress
from clustersim.learning.order import ReplicaOrder
from clustersim.program import Caps, Copies, bucket_caps
from clustersim.shortcuts import Shortcut
from clustersim.spec import Spec
from clustersim.stragglers import Awaited
from clustersim.topology import Topology


class Strategy(Spec):
    """What the workers of a job send each other, and when a worker may continue.

    A strategy is a pydantic model: its fields are the keys under `strategy` in a scenario. A worker is one GPU, or one
    replica of a model that is laid over several GPUs. Start a new strategy from the most specific of these classes:

    | base class | the workers | override | examples |
    |---|---|---|---|
    | `CollectiveStrategy` | wait for each other in an all-reduce | `iterate` | `delayed`, `local` |
    | `Synchronous` | wait for each other in another exchange | `exchange`, or `rendezvous` | `server`, `gossip` |
    | `ServerStrategy` | push and pull, each at its own pace | `update_rule` | `async`, `softsync`, `backup` |
    | `Strategy` | anything else | `start` | |

    Every strategy declares `kind: Literal["<name>"] = "<name>"`, the name under which it is registered.

    `start` runs the workers of one job as processes on the simulated clock. All other methods describe the strategy to
    the scenario checks, the memory estimate, the planner and the report. They have five groups of defaults:

    - Safe for every strategy: `allows` (no shortcut), `warnings`, `assumptions`, `facts`, `mistakes` (none),
      `bucket_caps`, `stored_bytes_per_parameter` (0),
      `has_processes`, `blocks_parents`, `sends_shared_twice` (no), `gradient_copies` (no copies;
      a strategy of DistributedDataParallel returns `COPIES["pytorch"]`, or is faster than `all-reduce` for that).
    - For workers that all train one model, and a model that a scenario really trains (`learning`): override
      `gradients_per_update` (all workers) if an update takes fewer gradients, `members` (the worker alone) if a worker
      pushes the gradients of others too, `iterations_of` (one update in each) if iterations make more or fewer updates,
      and `replica_order` (None) if workers train weights of their own.
    - For workers that wait for no other worker and run the optimizer themselves. Override what is different:
      `awaited`, `updates_on_gpu`, `sends_alone`, `round_length`, `overlaps_backward`, `start_layout`.
    - For a strategy whose workers each have the whole model on one GPU: the class variables `all_reduces_gradients`,
      `synchronizes_replicas` and `supports_layouts` are False. Set one where it holds; scenario checks ask for them.
    - For a strategy that supports everything. Override to refuse a combination that is not simulated:
      `gathering_mistakes` (compression), `sharding_mistakes` (ZeRO, FSDP), `placed_mistakes` (topology, transport).

    A shortcut computes the same result with fewer events. The base class uses none. A class lists in
    `proved_shortcuts` the shortcuts whose stated property holds for it (`Shortcut` has the properties). A subclass has
    to list them again, because an overridden method may break the property. `tests/contracts` compares the default
    result of every registered strategy with the exact one.
    """

    proved_shortcuts: ClassVar[frozenset[Shortcut]] = frozenset()
    """Shortcuts that give this class its exact result. Subclasses do not inherit them."""

    all_reduces_gradients: ClassVar[bool] = False
    """Whether every rank gets the sum of all gradients by an all-reduce, or its shard by a reduce-scatter."""

    synchronizes_replicas: ClassVar[bool] = False
    """Whether all ranks that hold the same parameters wait for each other in every iteration."""

    supports_layouts: ClassVar[bool] = False
    """Whether a worker may be a replica of the model that is laid over several GPUs."""

    trains_groups: ClassVar[bool] = False
    """Whether a worker may be a group of replicas that shard among themselves, and whose gradients only it adds up."""

    buckets_as_software: ClassVar[bool] = True
    """Whether the software's sheet says which gradients travel together, where the scenario does not."""

    kind: str
    overlap: bool = Field(default=True, description="exchange gradients while backward still runs")
    buckets: str = Field(
        default="auto",
        description="which gradients travel together: `pytorch` (1 MiB, then 25 MiB), `megatron` (40 million "
        "parameters, or a million for each replica of the model if that is more), `horovod` (as many as fit into a "
        "buffer of 64 MiB), `layer` (one bucket for each layer), "
        "`tensor` (one bucket for each tensor of a layer, weights and biases), `whole` (all in one) or a size that "
        "caps every bucket, such as `4 MiB`; `auto` is `megatron` with `sharding`, else `pytorch`",
    )

    @field_validator("buckets", mode="before")
    @classmethod
    def _buckets_are_a_rule_or_a_size(cls, value: Any) -> Any:
        if isinstance(value, str | int | float):
            bucket_caps(value)
        return value

    @abstractmethod
    def start(self, job: Job, on_progress: OnProgress = lambda share: None) -> simpy.Event:
        """Start the workers of a job; return an event that fires when everything that is measured has ended.

        The strategy notes in `job.times` when each rank did what, and sets `job.algorithms` [num_buckets]. It also says
        what of the run is measured: `job.num_warm_up` and `job.num_after` in iterations, or a `job.window` of updates.
        It calls `on_progress` with the share of the work that is done, 0 to 1.
        """

    def start_layout(self, jobs: Sequence[Job], on_progress: OnProgress = lambda share: None) -> simpy.Event:
        """Start the workers of a model that is laid over several GPUs; return an event as `start` does.

        There is one job for each place in a replica (pipeline stage and tensor rank). Rank r of each job belongs to
        replica r. By default the ranks of each place exchange gradients on their own.
        """
        finished = [self.start(jobs[0], on_progress), *(self.start(job) for job in jobs[1:])]
        return jobs[0].env.all_of(finished)

    def allows(self, shortcut: Shortcut) -> bool:
        """Return whether this very class lists the shortcut in `proved_shortcuts`."""
        return shortcut in type(self).__dict__.get("proved_shortcuts", ())

    def bucket_caps(self, gradient_bytes: float, num_copies: int, sharding: str | None) -> Caps:
        """Return the bytes that close each bucket, the last cap for all later ones; None if there is one bucket only.

        A parameter has `gradient_bytes` of gradient. The `num_copies` replicas add gradients, or shard them.
        """
        return bucket_caps(self.buckets, gradient_bytes, num_copies, sharding is not None)

    @property
    def by_tensor(self) -> bool:
        """Whether each tensor of a layer is a gradient of its own."""
        return self.buckets == "tensor"

    @property
    def overlaps_backward(self) -> bool:
        """Whether gradients are exchanged while backward still runs."""
        return self.overlap

    @property
    def layout_refusal(self) -> str | None:
        """Why a worker cannot be a replica over several GPUs, as the end of a sentence; None where it can."""
        return None if self.supports_layouts else "is simulated with the whole model on each GPU"

    @property
    def node_keys(self) -> frozenset[str]:
        """The keys that number the workers, which are replicas where the model is laid over several GPUs."""
        return frozenset()

    @property
    def updates_on_gpu(self) -> bool:
        """Whether every worker runs the optimizer. If not, servers do, and send parameters back."""
        return True

    @property
    def sends_alone(self) -> bool:
        """Whether a single worker sends anything, for example to a server."""
        return True

    @property
    def has_processes(self) -> bool:
        """Whether the strategy runs on a transport whose processes receive by one thread at a limited rate."""
        return False

    @property
    def blocks_parents(self) -> bool:
        """Whether a parent in a tree starts backward only after its children have copied their gradients to it."""
        return False

    @property
    def sends_shared_twice(self) -> bool:
        """Whether the gradient of a matrix that two layers share travels with the gradients of both layers."""
        return False

    @property
    def stored_bytes_per_parameter(self) -> float:
        """Bytes of GPU memory per parameter that the strategy stores besides weights, gradients and optimizer state."""
        return 0.0

    def gradient_copies(self, is_whole: bool) -> Copies:
        """Return how often gradients are copied to be sent. `is_whole` says that each GPU has the whole model."""
        return Copies()

    @property
    def round_length(self) -> int:
        """Number of iterations after which a worker repeats itself, for example from one averaging to the next."""
        return 1

    def awaited(self, num_workers: int, num_hosts: int) -> Awaited:
        """Return for how many workers, itself included, a worker waits: the fastest k of n. By default for no other.

        GPUs of one kind differ in speed; the expected speed of the job follows from this number.
        """
        return Awaited(1, 1)

    def gradients_per_update(self, num_workers: int, num_hosts: int) -> float:
        """Return how many workers' gradients an update has, on average; 1 where workers train their own weights."""
        return float(num_workers)

    def members(self, hosts: np.ndarray) -> list[Sequence[int]]:
        """Return the workers whose gradients each worker pushes, as one mean [num_workers]; by default its own.

        `hosts` [num_workers] are the workers' hosts. A worker that pushes nothing has no members.
        """
        return [(worker,) for worker in range(len(hosts))]

    def iterations_of(self, num_updates: int, num_workers: int) -> int:
        """Return how many iterations make so many updates; of workers at their own pace, the number of updates."""
        return num_updates

    def replica_order(self, job: Job, end_s: np.ndarray) -> ReplicaOrder | None:
        """Return what workers of a simulated job did with weights of their own; None if all train one model.

        `end_s` [num_workers, num_iterations] is when each worker has ended each iteration, in seconds from the start.
        Where workers have their own pace it has no iterations, and the strategy has noted `job.replica_events`.
        """
        return None

    def mistakes(self, num_workers: int) -> list[Mistake]:
        """Return what is wrong with the strategy for this number of workers; keys are relative to `strategy`."""
        return []

    def gathering_mistakes(self, compression: str) -> list[Mistake]:
        """Return what is wrong with it for a compression whose gradients have to be gathered, and cannot be added."""
        return []

    def sharding_mistakes(self, sharding: str) -> list[Mistake]:
        """Return what is wrong with it where replicas shard optimizer state, and perhaps gradients and weights."""
        return []

    def placed_mistakes(self, topology: Topology, gpus: np.ndarray, transport: str) -> list[Mistake]:
        """Return what is wrong with it on these GPUs [num_ranks] and with this transport.

        Keys are relative to `strategy`.
        """
        return []

    def warnings(self) -> tuple[str, ...]:
        """Return a message for each option that is set and has no effect."""
        return ()

    def assumptions(self) -> tuple[str, ...]:
        """Return what its forecasts assume, as sentences."""
        return ()

    def facts(self, num_workers: int) -> dict[str, float]:
        """Return figures of the strategy that need no simulation, for the result file."""
        return {}
