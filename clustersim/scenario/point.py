"""One fully specified training: a scenario with one value for every key."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import or_
from typing import Annotated, Any, NamedTuple, Self

from pydantic import BeforeValidator, ConfigDict, Field, PrivateAttr, ValidationInfo, model_validator

from clustersim.errors import InputError, Mistake
from clustersim.hardware.speeds import AS_SHEETS, INPUT, Speeds
from clustersim.learning import TASKS
from clustersim.model.layer import Anchoring
from clustersim.model.precision import PRECISIONS
from clustersim.scenario.fine_tuning_checks import lora_mistakes, packing_mistakes
from clustersim.scenario.keys import PointKeys
from clustersim.scenario.launch_checks import launch_mistakes
from clustersim.scenario.layout_checks import layout_mistakes
from clustersim.scenario.learning_checks import task_mistakes
from clustersim.scenario.measured import measured_mistakes
from clustersim.scenario.optimizer_checks import issue_mistakes, muon_mistakes, skipped_mistakes
from clustersim.scenario.precision_checks import casts_mistakes
from clustersim.spec import whole
from clustersim.stragglers import ComputeStraggler
from clustersim.strategies import STRATEGIES
from clustersim.topology import TOPOLOGIES
from clustersim.units import Duration

MOST_JOBS = 256
JobCount = Annotated[int, Field(ge=1, le=MOST_JOBS), BeforeValidator(whole)]

SHARED = (
    *("$schema", "description", "extends", "topology", "background_traffic", "transport", "failures", "jobs", "cases"),
    *(
        "sweep",
        "baseline",
        "dataset_size",
        "epochs",
        "train_tokens",
        "num_iterations",
        "published",
        "seed",
        "replicates",
        "measured",
    ),
    *("learning", "prices"),
)
"""Keys that all jobs of a cluster share, or that only the first job uses: no job has its own."""

KEYS_ALONE = "keys alone"
"""In a validation context: each key is checked by itself."""

_MOST_TIMES = 20_000_000  # iterations times GPUs: the times that are stored


class Point(PointKeys):
    """A training on a cluster, every key with one value, checked against each other."""

    jobs: JobCount | Annotated[list[JobPoint], Field(min_length=1, max_length=MOST_JOBS)] = Field(
        default=1,
        description="jobs that share the cluster, each on its own GPUs: the number of copies of this one, or a list "
        "with a map per job of the keys that differ; the results of the run are those of the first",
    )

    _anchoring: Anchoring | None = PrivateAttr(default=None)
    _speeds: Speeds = PrivateAttr(default=AS_SHEETS)

    @property
    def anchoring(self) -> Anchoring | None:
        """What measured runs say of its kernels; None where there are none, and before that is known."""
        return self._anchoring

    def anchored(self, anchoring: Anchoring | None) -> Self:
        """Return the same training with kernels as measured runs say."""
        point = self.model_copy()
        point._anchoring = anchoring
        return point

    @property
    def speeds(self) -> Speeds:
        """How fast parts of the cluster are, relative to their sheets."""
        return self._speeds

    def at_speeds(self, speeds: Speeds) -> Self:
        """Return the same training, and the jobs beside it, on a cluster as fast as `speeds` say.

        Its input is as it is here, times the factor of the input.
        """
        changed: dict[str, Any] = {}
        if self.input is not None and speeds.factor(INPUT) != 1:
            changed["input"] = self.input.times(speeds.factor(INPUT))
        if not isinstance(self.jobs, int):
            changed["jobs"] = [job.at_speeds(speeds) for job in self.jobs]
        made = self.model_copy(update=changed)
        made._speeds = speeds
        return made

    @property
    def has_length(self) -> bool:
        """Whether the scenario says when training ends."""
        return self.train_tokens is not None or (self.epochs is not None and self.dataset_size is not None)

    def num_samples(self, tokens_per_sample: float | None) -> float | None:
        """Return the samples until training ends; None where the scenario does not say."""
        if self.train_tokens is not None and tokens_per_sample:
            return self.train_tokens / tokens_per_sample
        return None if self.epochs is None or self.dataset_size is None else self.epochs * self.dataset_size

    def each_job(self) -> list[JobOfMany]:
        """Return every job that shares the cluster; the run's results are those of the first, often the only one."""
        if isinstance(self.jobs, int):
            return [JobOfMany(f"job {number}", self, 0.0) for number in range(self.jobs)]
        return [JobOfMany(job.name or f"job {number}", job, job.start) for number, job in enumerate(self.jobs)]

    @model_validator(mode="after")
    def _fits_together(self, info: ValidationInfo) -> Self:
        """Check keys against each other, unless the validation context has `KEYS_ALONE`.

        The context holds the keys whose wrong values were replaced.
        """
        if KEYS_ALONE in (info.context or ()):
            return self
        is_known = "parallelism" not in (info.context or ())
        mistakes = [
            *(self._batch_mistakes() if is_known else ()),
            *layout_mistakes(self),
            *self._length_mistakes(),
            *self._straggler_mistakes(),
            *(self._worker_mistakes() if is_known else ()),
            *self._sharding_mistakes(),
            *launch_mistakes(self),
            *skipped_mistakes(self),
            *issue_mistakes(self),
            *muon_mistakes(self),
            *lora_mistakes(self),
            *packing_mistakes(self),
            *casts_mistakes(self),
            *self._gradient_mistakes(),
            *self._compression_mistakes(),
            *self._size_mistakes(),
            *task_mistakes(self),
            *measured_mistakes(self),
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
            message = f"the number of samples in an epoch is missing (got epochs: {self.epochs:g}); give dataset_size"
            mistakes.append(Mistake(message, key="epochs", got=str(self.epochs), allowed="with dataset_size"))
        given = [key for key in ("dataset_size", "epochs") if getattr(self, key) is not None]
        if self.train_tokens is not None and given:
            both = " and ".join(given)
            message = (
                f"the length of a training is train_tokens, or dataset_size and epochs (got train_tokens and {both})"
            )
            mistakes.append(
                Mistake(message, key="train_tokens", got=f"{self.train_tokens:g}", allowed=f"without {both}")
            )
        hours = self.baseline.hours if self.baseline is not None else None
        if hours is not None and not self.has_length:
            message = (
                "a baseline in hours needs the length of the training; give epochs and dataset_size, or train_tokens"
            )
            allowed = "with epochs and dataset_size, or with train_tokens"
            mistakes.append(Mistake(message, key="baseline.hours", got=str(hours), allowed=allowed))
        return mistakes

    def _worker_mistakes(self) -> list[Mistake]:
        """Return why the strategy cannot run on this many workers; empty where the layout itself is wrong."""
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
        """Return that 16-bit gradients need a precision whose layers read 16-bit weights."""
        if self.gradient_precision in (None, "fp32") or PRECISIONS[self.precision].operand_bytes < 4:
            return []
        got, asked = self.gradient_precision, self.precision
        message = (
            f"layers that compute in {asked} have gradients in fp32 (got {got}); write compression: fp16 to send them "
            "in 16 bits"
        )
        allowed = "fp32, or a precision of 16 bits"
        return [Mistake(message, key="gradient_precision", got=str(got), allowed=allowed)]

    def _compression_mistakes(self) -> list[Mistake]:
        if self.compression.adds_on_the_way:
            return []
        found = self.strategy.gathering_mistakes(self.compression.kind)
        return [replace(mistake, key=f"strategy.{mistake.key}") for mistake in found]

    def _size_mistakes(self) -> list[Mistake]:
        most, each = _MOST_TIMES // self.num_gpus, self.strategy.round_length
        if each > most:
            message = f"rounds of {each} iterations on {self.num_gpus} GPUs are too long to simulate; at most {most}"
            return [Mistake(message, key="strategy.steps", got=str(each), allowed=f"at most {most}")]
        if self.num_iterations <= most:
            return []
        message = f"{self.num_iterations} iterations on {self.num_gpus} GPUs are too many to simulate; at most {most}"
        return [Mistake(message, key="num_iterations", got=str(self.num_iterations), allowed=f"at most {most}")]

    def _straggler_mistakes(self) -> list[Mistake]:
        mistakes = []
        for number, straggler in enumerate(self.stragglers):
            of = straggler.of if isinstance(straggler, ComputeStraggler) else None
            named = of if isinstance(of, list) else []
            beyond = [rank for rank in named if rank >= self.num_gpus]
            if beyond:
                allowed = f"0 to {self.num_gpus - 1}"
                message = f"the job has {self.num_gpus} GPUs, with ranks {allowed} (got {beyond[0]})"
                mistakes.append(Mistake(message, key=f"stragglers.{number}.of", got=str(beyond[0]), allowed=allowed))
        return mistakes


def _without_shared(schema: dict[str, Any]) -> None:
    """Remove from a job's JSON Schema the keys that it cannot have for itself."""
    for key in SHARED:
        schema["properties"].pop(key, None)


class JobPoint(Point):
    """One of several jobs on a cluster: its own keys, merged into those of the scenario."""

    model_config = ConfigDict(json_schema_extra=_without_shared)

    start: Duration = Field(default=0.0, description="when the job starts, after the start of the run")


class JobOfMany(NamedTuple):
    """A job that shares a cluster: its name, its training and its start time."""

    name: str
    point: Point
    start_s: float


def _read_members() -> None:
    """Let points have the members that the tables have now; a point takes over what its jobs have."""
    for model in (PointKeys, JobPoint, Point):
        for name, table in (("strategy", STRATEGIES), ("topology", TOPOLOGIES)):
            model.model_fields[name].annotation = reduce(or_, table.values())
        model.model_rebuild(force=True)


Point.model_rebuild()
STRATEGIES.on_register(_read_members)
TOPOLOGIES.on_register(_read_members)
TASKS.on_register(_read_members)
