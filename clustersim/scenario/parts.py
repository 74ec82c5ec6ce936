"""Small parts of a scenario: batch, baseline and published points."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from clustersim.errors import InputError
from clustersim.spec import Count, Spec

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Source = Annotated[str, Field(min_length=1, description="source of the figure: document, page or table")]


def _exactly_one(spec: Spec, keys: tuple[str, ...]) -> None:
    given = [key for key in keys if spec.model_dump(by_alias=True)[key] is not None]
    if len(given) != 1:
        names = " and ".join(given) if given else "none of them"
        allowed = f"one of {', '.join(keys)}"
        raise InputError(f"expected {allowed} (got {names})", got=names, allowed=allowed)


class Batch(Spec):
    """Samples per iteration: per GPU, or in total and split evenly."""

    per_gpu: Count | None = Field(default=None, description="samples on each GPU")
    global_: Count | None = Field(
        default=None, alias="global", description="samples over all GPUs; a multiple of num_gpus"
    )

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        _exactly_one(self, ("per_gpu", "global"))
        return self


class GivenBaseline(Spec):
    """The reference of a speedup, if it is not a simulated one."""

    hours: Positive | None = Field(default=None, description="hours of the whole training on the reference")
    samples_per_s: Positive | None = Field(default=None, description="samples trained per second on the reference")
    source: Source

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        _exactly_one(self, ("hours", "samples_per_s"))
        return self


class MeasuredRun(Spec):
    """A run that was measured, of the scenario itself but for what `set` says: an anchor of its forecasts."""

    num_gpus: Count | None = Field(
        default=None, description="GPUs it was measured on; with `collectives`, for logs that do not give it"
    )
    samples_per_s: Positive | None = Field(default=None, description="samples trained per second")
    iteration_s: Positive | None = Field(default=None, description="seconds of an iteration")
    collectives: str | None = Field(
        default=None,
        description="in place of a figure: the log of a benchmark of collectives on the cluster (nccl-tests and others "
        "that `clustersim calibrate` reads), to which the constants of `transport` are fitted",
    )
    collective: str | None = Field(
        default=None,
        description="the collective of a log of nccl-tests that does not name it, such as all-gather",
    )
    set: dict[str, Any] = Field(
        default={},
        description="keys of the scenario that were different in this run, nested or with dots, such as "
        "{batch.per_gpu: 4}; where the scenario is a sweep, one value for each of its axes but num_gpus",
    )
    gpu: str | None = Field(
        default=None, description="the GPU it was measured on, as the name of a sheet: refused if the run has another"
    )
    model: str | None = Field(
        default=None, description="the model it was measured with: refused if the run has another"
    )
    precision: str | None = Field(
        default=None, description="the precision it was measured in: refused if the run has another"
    )
    source: str | None = Field(default=None, min_length=1, description="who measured it, where and when")

    @model_validator(mode="after")
    def _one_figure(self) -> Self:
        _exactly_one(self, ("samples_per_s", "iteration_s", "collectives"))
        if self.num_gpus is None and self.collectives is None:
            raise InputError("the number of GPUs of a measured run is missing", key="num_gpus", got="nothing")
        if self.collective is not None and self.collectives is None:
            raise InputError("only a log of collectives has one", key="collective", got=self.collective)
        return self

    @property
    def metric(self) -> Literal["samples_per_s", "iteration_s"]:
        """Which figure this is."""
        return "samples_per_s" if self.samples_per_s is not None else "iteration_s"

    @property
    def value(self) -> float:
        """The figure, in SI units."""
        return float(getattr(self, self.metric))


class Published(Spec):
    """A published figure to draw beside the forecast."""

    num_gpus: Count = Field(description="GPUs it was measured on")
    hours: Positive | None = Field(default=None, description="hours of the whole training")
    speedup: Positive | None = Field(default=None, description="speedup as it was published")
    samples_per_s: Positive | None = Field(default=None, description="samples trained per second")
    efficiency: Positive | None = Field(default=None, description="efficiency relative to linear scaling; 1 is linear")
    source: Source
    note: str | None = Field(default=None, description="a remark for the reader")

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        _exactly_one(self, ("hours", "speedup", "samples_per_s", "efficiency"))
        return self

    @property
    def metric(self) -> str:
        """Which figure this is: hours, speedup, samples_per_s or efficiency."""
        return next(
            key for key in ("hours", "speedup", "samples_per_s", "efficiency") if getattr(self, key) is not None
        )

    @property
    def value(self) -> float:
        """The figure, in the unit of its metric."""
        return float(getattr(self, self.metric))
