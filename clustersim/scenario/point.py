"""One fully specified training: a scenario with one value for every key."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self

from pydantic import BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from clustersim.devices import Input
from clustersim.errors import InputError, Mistake
from clustersim.failures import Failures
from clustersim.hardware import TRANSPORTS
from clustersim.kernels.compression import COMPRESSIONS, Compression, NoCompression
from clustersim.kernels.compute_time import ComputeSpec
from clustersim.kernels.optimizer import OptimizerSpec
from clustersim.model.precision import PRECISIONS
from clustersim.parallelism.grid import Grid
from clustersim.parallelism.spec import Parallelism, micro_batch_of
from clustersim.scenario.blocking import blocking_mistakes
from clustersim.scenario.issued import issue_mistakes
from clustersim.scenario.laid_out import layout_mistakes
from clustersim.scenario.parts import Baseline, Batch, Positive, Published
from clustersim.scenario.skipped import skipped_mistakes
from clustersim.spec import Count, Spec, union_of, whole
from clustersim.stragglers import STRAGGLERS, ComputeStraggler, Straggler
from clustersim.strategies import STRATEGIES, Strategy
from clustersim.topology import TOPOLOGIES, Placement, TopologySpec
from clustersim.topology.placement import Block
from clustersim.units import Duration

if TYPE_CHECKING:
    AnyStraggler = Straggler
    AnyStrategy = Strategy
    AnyTopology = TopologySpec
else:
    AnyStraggler = union_of(STRAGGLERS)
    AnyStrategy = union_of(STRATEGIES)
    AnyTopology = union_of(TOPOLOGIES)


def _by_kind(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


def _known_compression(value: Any) -> Any:
    if isinstance(value, str):
        COMPRESSIONS[value]
    return _by_kind(value)


Optimizer = Annotated[OptimizerSpec, BeforeValidator(_by_kind, json_schema_input_type=OptimizerSpec | str)]
"""An optimizer as a scenario writes it: `adam` means `{kind: adam}`."""

if TYPE_CHECKING:
    AnyCompression = Compression
else:
    _Kinds = Annotated[reduce(or_, COMPRESSIONS.values()), Field(discriminator="kind")]
    AnyCompression = Annotated[_Kinds, BeforeValidator(_known_compression, json_schema_input_type=_Kinds | str)]


MOST_JOBS = 256
JobCount = Annotated[int, Field(ge=1, le=MOST_JOBS), BeforeValidator(whole)]

SHARED = (
    *("$schema", "description", "extends", "topology", "background_traffic", "transport", "failures", "jobs"),
    *("baseline", "dataset_size", "epochs", "num_iterations", "published", "seed", "replicates"),
)
"""Keys that are the same for all jobs of a cluster, or mean something to the first alone: no job has its own."""

_MOST_CYCLES = 20_000_000  # iterations times GPUs whose times are kept


def _in_a_list(value: Any) -> Any:
    """Read a lone member as a list of one."""
    return [value] if isinstance(value, dict) else value


class Point(Spec):
    """A training on a cluster, every key with one value."""

    schema_: str | None = Field(
        default=None, alias="$schema", description="JSON Schema for editors; means nothing to clustersim"
    )
    name: str | None = Field(default=None, description="what to call the scenario")
    description: str | None = Field(default=None, description="what it shows, in a line")
    extends: str | list[str] | None = Field(
        default=None,
        description="scenario files or shipped names to start from; this file wins, and a later one over an earlier",
    )
    model: str = Field(min_length=1, description="a model of the catalogue, or a workload file")
    num_gpus: Count = Field(description="how many GPUs train, every worker counted")
    batch: Batch = Field(description="samples an iteration, {per_gpu: n} or {global: n}")
    topology: AnyTopology = Field(description="the cluster: a shipped name, a file, or a map with its kind")
    background_traffic: float = Field(
        default=0.0, ge=0, lt=1, description="share of every link between switches that other jobs take on average"
    )
    placement: Placement = Field(default=Block(), description="which GPUs of the cluster the ranks get")
    transport: str = Field(
        default="ideal",
        description="the message library, which costs time for each message: its name, or a transport sheet's file",
    )
    strategy: AnyStrategy = Field(description="how the gradients of the workers meet")
    parallelism: Parallelism = Field(default=Parallelism(), description="how the model is laid over the GPUs")
    precision: str = Field(default="fp32", description="number format of weights, activations and gradients")
    gradient_precision: Literal["fp32", "fp16", "bf16"] | None = Field(
        default=None,
        description="number format of the gradients of parameters, as they come and as they are exchanged, where it is "
        "not that of `precision` (fp32 with `amp-...`): in 16 bits where weights are, beside an fp32 copy that the "
        "optimizer updates (DeepSpeed, InternLM), or as FSDP's `reduce_dtype` and Megatron-LM's "
        "`--grad-reduce-in-bf16` say",
    )
    optimizer: Optimizer = Field(
        default=OptimizerSpec(), description="the update rule, for its memory and time: its kind, or {kind: ...}"
    )
    compression: AnyCompression = Field(
        default=NoCompression(),
        description="how gradients are made smaller before they are sent: a kind, or {kind: ...}",
    )
    compute: ComputeSpec = Field(default=ComputeSpec(), description="where the times of the layers come from")
    input: Input | None = Field(
        default=None, description="how quickly samples are read and decoded; they are there in time if left out"
    )
    stragglers: Annotated[list[AnyStraggler], BeforeValidator(_in_a_list)] = Field(
        default=[], description="who is slow, when, and by how much; the factors multiply"
    )
    failures: Failures | None = Field(
        default=None, description="GPUs and hosts fail in a long training, which goes on from its last checkpoint"
    )
    jobs: JobCount | Annotated[list[JobPoint], Field(min_length=1, max_length=MOST_JOBS)] = Field(
        default=1,
        description="jobs that share the cluster, each on its own GPUs: how many copies of this one, or a list with a "
        "map for each of what it has otherwise; the figures of the run are those of the first",
    )
    baseline: Baseline | None = Field(
        default=None, description="what a speedup is relative to; one GPU of the same kind if left out"
    )
    dataset_size: Count | None = Field(default=None, description="samples of one epoch")
    epochs: Positive | None = Field(default=None, description="passes over the data until training ends")
    num_iterations: Count = Field(
        default=10,
        description="updates of the model to measure, after those in which the job finds its pace; where all workers "
        "march in step an update is an iteration of all, and `local` counts iterations, in whole rounds of its `steps`",
    )
    published: list[Published] = Field(default=[], description="published figures to draw beside the forecast")
    seed: int = Field(default=0, ge=0, description="every random stream is made from it")
    replicates: Count = Field(default=1, le=10_000, description="runs with different luck, for the interval")
    memory_check: bool = Field(
        default=True, description="refuse a plan that does not fit a GPU's memory; false only warns"
    )

    @property
    def is_plain(self) -> bool:
        """Whether every GPU trains a copy of the whole model, on all of its batch at once."""
        return self.parallelism.is_plain(self.num_gpus)

    @property
    def gradient_bytes(self) -> float:
        """Bytes of a parameter's gradient, before any compression."""
        if self.gradient_precision is None:
            return PRECISIONS[self.precision].gradient_bytes
        return 4.0 if self.gradient_precision == "fp32" else 2.0

    @property
    def grid(self) -> Grid:
        """The ranks in the box in which the model is laid over them."""
        return self.parallelism.grid(self.num_gpus)

    @property
    def micro_batch(self) -> int:
        """Samples that go through the model at once: of a copy, which may lie on several GPUs."""
        return micro_batch_of(self.parallelism, self.grid, self.global_batch)

    @property
    def per_gpu_batch(self) -> int:
        """Samples on each GPU in one iteration; where a copy lies on several, its batch over them, at least one."""
        return self.batch.per_gpu or max(1, (self.batch.global_ or 0) // self.num_gpus)

    @property
    def global_batch(self) -> int:
        """Samples over all GPUs in one iteration."""
        return self.batch.global_ or (self.batch.per_gpu or 0) * self.num_gpus

    def each_job(self) -> list[JobOfMany]:
        """Return every job that shares the cluster, the one whose figures are the run's first; often that alone."""
        if isinstance(self.jobs, int):
            return [JobOfMany(f"job {number}", self, 0.0) for number in range(self.jobs)]
        return [JobOfMany(job.name or f"job {number}", job, job.start) for number, job in enumerate(self.jobs)]

    @field_validator("precision")
    @classmethod
    def _known_precision(cls, value: str) -> str:
        PRECISIONS[value]
        return value

    @field_validator("transport")
    @classmethod
    def _known_transport(cls, value: str) -> str:
        TRANSPORTS.load(value)
        return value

    @model_validator(mode="after")
    def _fits_together(self, info: ValidationInfo) -> Self:
        """Judge keys by each other; the context of validation holds those that stand in for wrong ones."""
        is_known = "parallelism" not in (info.context or ())
        mistakes = [
            *(self._batch_mistakes() if is_known else ()),
            *layout_mistakes(self),
            *self._length_mistakes(),
            *self._straggler_mistakes(),
            *(self._worker_mistakes() if is_known else ()),
            *self._sharding_mistakes(),
            *blocking_mistakes(self),
            *skipped_mistakes(self),
            *issue_mistakes(self),
            *self._gradient_mistakes(),
            *self._compression_mistakes(),
            *self._size_mistakes(),
        ]
        if mistakes:
            raise InputError(mistakes)
        return self

    def _batch_mistakes(self) -> list[Mistake]:
        batch = self.batch.global_
        if batch is None or batch % self.num_gpus == 0 or layout_mistakes(self) or not self.is_plain:
            return []
        below = batch // self.num_gpus * self.num_gpus
        near = f"{below} or {below + self.num_gpus}" if below else f"{self.num_gpus}"
        message = f"a batch of {batch} does not divide over {self.num_gpus} GPUs; the nearest that does is {near}"
        return [Mistake(message, key="batch.global", got=str(batch), allowed=f"a multiple of {self.num_gpus}")]

    def _length_mistakes(self) -> list[Mistake]:
        mistakes = []
        if self.epochs is not None and self.dataset_size is None:
            message = "epochs of how many samples? Give dataset_size as well"
            mistakes.append(Mistake(message, key="epochs", got=str(self.epochs), allowed="with dataset_size"))
        if (
            self.baseline is not None
            and self.baseline.hours is not None
            and (self.epochs is None or self.dataset_size is None)
        ):
            message = "hours can only be compared where epochs and dataset_size say how long the training is"
            mistakes.append(
                Mistake(
                    message, key="baseline.hours", got=str(self.baseline.hours), allowed="with epochs and dataset_size"
                )
            )
        return mistakes

    def _worker_mistakes(self) -> list[Mistake]:
        """Return why so many GPUs, or copies of a model on several, cannot meet; nothing where it cannot lie so."""
        try:
            num_workers = self.num_gpus if self.is_plain else self.grid.num_replicas
        except InputError:
            return []
        return [replace(each, key=f"strategy.{each.key}") for each in self.strategy.mistakes(num_workers)]

    def _sharding_mistakes(self) -> list[Mistake]:
        sharding = self.parallelism.sharding
        found = self.strategy.sharding_mistakes(sharding) if sharding else []
        return [replace(mistake, key=f"strategy.{mistake.key}") for mistake in found]

    def _gradient_mistakes(self) -> list[Mistake]:
        """Return that gradients in 16 bits come of weights that all layers read in 32."""
        if self.gradient_precision in (None, "fp32") or PRECISIONS[self.precision].operand_bytes < 4:
            return []
        got, asked = self.gradient_precision, self.precision
        message = (
            f"layers that compute in {asked} have gradients in fp32; write compression: fp16 to send them in 16 bits"
        )
        allowed = "fp32, or a precision of 16 bits"
        return [Mistake(message, key="gradient_precision", got=str(got), allowed=allowed)]

    def _compression_mistakes(self) -> list[Mistake]:
        if self.compression.adds_on_the_way:
            return []
        found = self.strategy.gathering_mistakes(self.compression.kind)
        return [replace(mistake, key=f"strategy.{mistake.key}") for mistake in found]

    def _size_mistakes(self) -> list[Mistake]:
        most = _MOST_CYCLES // self.num_gpus
        if self.num_iterations <= most:
            return []
        message = f"{self.num_iterations} iterations of {self.num_gpus} GPUs are more than is simulated; at most {most}"
        return [Mistake(message, key="num_iterations", got=str(self.num_iterations), allowed=f"at most {most}")]

    def _straggler_mistakes(self) -> list[Mistake]:
        mistakes = []
        for number, straggler in enumerate(self.stragglers):
            of = straggler.of if isinstance(straggler, ComputeStraggler) else None
            named = of if isinstance(of, list) else []
            beyond = [rank for rank in named if rank >= self.num_gpus]
            if beyond:
                message = f"there is no {beyond[0]} among {self.num_gpus} GPUs, numbered from 0"
                allowed = f"0 to {self.num_gpus - 1}"
                mistakes.append(Mistake(message, key=f"stragglers.{number}.of", got=str(beyond[0]), allowed=allowed))
        return mistakes


def _without_shared(schema: dict[str, Any]) -> None:
    """Leave out of a job's JSON Schema what it cannot have for itself."""
    for key in SHARED:
        schema["properties"].pop(key, None)


class JobPoint(Point):
    """One of several jobs on a cluster: keys it has otherwise than the scenario, which are merged into that."""

    model_config = ConfigDict(json_schema_extra=_without_shared)

    start: Duration = Field(default=0.0, description="when it begins, after the run has")


class JobOfMany(NamedTuple):
    """A job that shares a cluster: what to call it, what it trains, and when it begins."""

    name: str
    point: Point
    start_s: float


def _read_members() -> None:
    """Let points have the members that the tables have now."""
    for model in (Point, JobPoint):
        for name, table in (("strategy", STRATEGIES), ("topology", TOPOLOGIES)):
            model.model_fields[name].annotation = reduce(or_, table.values())
        model.model_rebuild(force=True)


Point.model_rebuild()
STRATEGIES.on_register(_read_members)
TOPOLOGIES.on_register(_read_members)
