"""The keys of one training, without the rules between them: the checks of `point` and of the modules it uses read it.

`Point` adds those rules. A check takes `PointKeys`, so that no check imports the module that calls it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PrivateAttr, field_validator

from clustersim.devices import Input
from clustersim.failures import Failures
from clustersim.hardware import TRANSPORTS, load_gpu
from clustersim.kernels.adapters import Lora
from clustersim.kernels.compression import COMPRESSIONS, Compression, NoCompression
from clustersim.kernels.compute_time import ComputeSpec
from clustersim.kernels.optimizer import OptimizerSpec
from clustersim.kernels.packing import Packing
from clustersim.learning import LearningSpec
from clustersim.learning.spec import read_tasks
from clustersim.model.precision import PRECISIONS
from clustersim.parallelism.grid import Grid
from clustersim.parallelism.spec import Parallelism, micro_batch_of
from clustersim.scenario.parts import Batch, GivenBaseline, MeasuredRun, Positive, Published
from clustersim.scenario.software_keys import Software, SoftwareKeys
from clustersim.scenario.sweep_keys import ABOUT_CASES, ABOUT_SWEEP, Cases, SweepKeys
from clustersim.spec import Count, Spec, union_of
from clustersim.stragglers import STRAGGLERS, Straggler
from clustersim.strategies import STRATEGIES, Strategy
from clustersim.topology import TOPOLOGIES, Placement, TopologySpec
from clustersim.topology.placement import Block

if TYPE_CHECKING:
    AnyStraggler = Straggler
    AnyStrategy = Strategy
    AnyTopology = TopologySpec
else:
    AnyStraggler = union_of(STRAGGLERS)
    AnyStrategy = union_of(STRATEGIES)
    AnyTopology = union_of(TOPOLOGIES)
    read_tasks()


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
    _Kinds = union_of(COMPRESSIONS)
    AnyCompression = Annotated[_Kinds, BeforeValidator(_known_compression, json_schema_input_type=_Kinds | str)]


def _in_a_list(value: Any) -> Any:
    """Read a single map as a list of one."""
    return [value] if isinstance(value, dict) else value


MOST_GPUS = 1_000_000
"""GPUs of one job; their iterations are limited too (`Point`)."""


class PointKeys(Spec):
    """The keys of a training on a cluster, each with one value, and what follows from them directly."""

    schema_: str | None = Field(
        default=None, alias="$schema", description="JSON Schema for editors; clustersim ignores it"
    )
    name: str | None = Field(default=None, description="name of the scenario")
    description: str | None = Field(default=None, description="what the scenario shows, in one line")
    extends: str | list[str] | None = Field(
        default=None,
        description="scenario files or shipped names to start from; this file wins, then the later of them",
    )
    cases: Cases | None = Field(default=None, description=ABOUT_CASES)
    sweep: SweepKeys | None = Field(default=None, description=ABOUT_SWEEP)
    model: str = Field(min_length=1, description="a model of the catalogue, or a workload file")
    num_gpus: Count = Field(le=MOST_GPUS, description="number of GPUs that train, all workers included")
    batch: Batch = Field(description="samples per iteration, {per_gpu: n} or {global: n}")
    topology: AnyTopology = Field(description="the cluster: a shipped name, a file, or a map with its kind")
    background_traffic: float = Field(
        default=0.0, ge=0, lt=1, description="mean share of every link between switches that other jobs use"
    )
    placement: Placement = Field(default=Block(), description="which GPUs of the cluster the ranks get")
    software: Software = Field(
        default=SoftwareKeys(),
        description="which program trains: its name, or {name: ..., and what differs from its sheet}; if left out, the "
        "layout decides, and the run says which was taken",
    )
    transport: str = Field(
        default="ideal",
        description="the message library, which adds time to each message: its name, or the file of a transport sheet; "
        "if left out, that of the software. `ideal` adds no time",
    )
    strategy: AnyStrategy = Field(description="how the workers synchronize gradients or weights")
    parallelism: Parallelism = Field(default=Parallelism(), description="how the model is split over the GPUs")
    precision: str = Field(
        default="fp32",
        description="number format of weights, activations and gradients; if left out, that of the software",
    )
    gradient_precision: Literal["fp32", "fp16", "bf16"] | None = Field(
        default=None,
        description="number format in which gradients of parameters are computed and exchanged, where it differs from "
        "that of `precision` (fp32 with `amp-...`): 16 bits for 16-bit weights with an fp32 copy that the optimizer "
        "updates (DeepSpeed, InternLM), or as set by FSDP's `reduce_dtype` and Megatron-LM's `--grad-reduce-in-bf16`",
    )
    optimizer: Optimizer = Field(
        default=OptimizerSpec(), description="the update rule, for its memory and time: its kind, or {kind: ...}"
    )
    packing: Packing | None = Field(
        default=None,
        description="lengths of the documents in the sequences of a language model, {lengths: ..., kind: ...}: packed, "
        "so that attention computes fewer pairs of tokens, or padded; without it each sequence is one document of all "
        "its tokens",
    )
    lora: Lora | None = Field(
        default=None,
        description="adapters of low rank that are trained while all other weights are frozen, {rank: n, ...}; without "
        "it all weights are trained",
    )
    compression: AnyCompression = Field(
        default=NoCompression(),
        description="how gradients are compressed before they are sent: a kind, or {kind: ...}",
    )
    compute: ComputeSpec = Field(default=ComputeSpec(), description="where the times of the layers come from")
    input: Input | None = Field(
        default=None, description="how quickly samples are read and decoded; without it samples are always ready"
    )
    stragglers: Annotated[list[AnyStraggler], BeforeValidator(_in_a_list)] = Field(
        default=[], description="which GPUs, hosts or links are slow, when, and by how much; the factors multiply"
    )
    failures: Failures | None = Field(
        default=None, description="failures of GPUs and hosts in a long training that restarts from its last checkpoint"
    )
    learning: LearningSpec | None = Field(
        default=None,
        description="a small model that is really trained in the simulated order, for loss and accuracy against time",
    )
    jobs: Any = 1
    baseline: GivenBaseline | None = Field(
        default=None,
        description="what a speedup is relative to; if left out, one GPU of the same kind, or the fewest GPUs that "
        "hold the model",
    )
    dataset_size: Count | None = Field(default=None, description="samples of one epoch")
    epochs: Positive | None = Field(default=None, description="passes over the data until training ends")
    train_tokens: Positive | None = Field(
        default=None, description="tokens until training ends, such as 1e12, instead of dataset_size and epochs"
    )
    num_iterations: Count = Field(
        default=10,
        description="updates of the model to measure, after a warm-up; with a synchronous strategy an update is one "
        "iteration of all workers, and `local` counts iterations, in whole rounds of its `steps`",
    )
    measured: Annotated[list[MeasuredRun], BeforeValidator(_in_a_list)] = Field(
        default=[],
        description="runs of this training that were measured, with any number of GPUs: all forecasts are scaled so "
        "that those of these runs are as measured",
    )
    published: list[Published] = Field(default=[], description="published figures to draw beside the forecast")
    seed: int = Field(default=0, ge=0, description="seed of every random stream")
    replicates: Count = Field(
        default=1, le=10_000, description="runs with different random streams, for a confidence interval"
    )
    prices: dict[str, Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]] = Field(
        default={},
        description="dollars for an hour of one GPU, by the name of its sheet: {h100: 2.5}; others cost what their "
        "sheets say",
    )
    memory_check: bool = Field(
        default=True, description="refuse a training that does not fit into a GPU's memory; false only warns"
    )

    _settled: tuple[frozenset[str], bool] = PrivateAttr(default=(frozenset(), False))

    @property
    def supplied(self) -> frozenset[str]:
        """The dotted keys whose values come from the software's sheet."""
        return self._settled[0]

    @property
    def is_software_chosen(self) -> bool:
        """Whether the scenario names no software, so that the layout decided."""
        return self._settled[1]

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
        """The ranks as a grid, with one axis for each way in which the model is split."""
        return self.parallelism.grid(self.num_gpus)

    @property
    def micro_batch(self) -> int:
        """Samples that go through one copy of the model at once; a copy may be split over several GPUs."""
        return micro_batch_of(self.parallelism, self.grid, self.global_batch)

    @property
    def per_gpu_batch(self) -> int:
        """Samples per GPU in one iteration; if a copy is split over several GPUs, its batch over them, at least 1."""
        return self.batch.per_gpu or max(1, (self.batch.global_ or 0) // self.num_gpus)

    @property
    def global_batch(self) -> int:
        """Samples over all GPUs in one iteration."""
        return self.batch.global_ or (self.batch.per_gpu or 0) * self.num_gpus

    @field_validator("precision")
    @classmethod
    def _known_precision(cls, value: str) -> str:
        PRECISIONS[value]
        return value

    @field_validator("prices")
    @classmethod
    def _known_gpus(cls, value: dict[str, float]) -> dict[str, float]:
        for name in value:
            load_gpu(name)
        return value

    @field_validator("transport")
    @classmethod
    def _known_transport(cls, value: str) -> str:
        TRANSPORTS.load(value)
        return value
