"""Run: one point of the axes. Sweep: all runs of a scenario. Their JSON form is `clustersim.result/1`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from math import nan
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from clustersim.reading.typed import wrong_types
from clustersim.results.anchor import Anchor
from clustersim.results.band import Band
from clustersim.results.baseline import Baseline
from clustersim.results.failures import FailureTimes
from clustersim.results.features import Features
from clustersim.results.frame import framed
from clustersim.results.html import run_html, sweep_html
from clustersim.results.learning import LearningRun
from clustersim.results.learning_scale import LearningScale
from clustersim.results.point_error import PointError
from clustersim.results.rows import Cell, data_frame, polars_frame, rows_of
from clustersim.results.trace import Spans
from clustersim.results.updates import UpdateLog
from clustersim.results.worker_iterations import WorkerIterations

if TYPE_CHECKING:
    from pandas import DataFrame
    from polars import DataFrame as PolarsFrame

RESULT_SCHEMA = "clustersim.result/1"

BREAKDOWN = ("compute", "slowed", "communication_exposed", "waiting", "input", "bubble", "offload", "host", "recovery")
"""The parts of an iteration in the order of reports; they sum to `iteration_s`."""

WEIGHT_VERSIONS = "weight_versions"
"""Key in `facts` of a run in which workers stash weights: the maximum number of versions."""

_LOGS = frozenset(["cycles", "updates", "more_updates"])
"""Fields with a `to_dict` of their own."""

_DERIVED = (
    *["samples_per_s_per_gpu", "tokens_per_s", "tokens_per_s_per_gpu", "host_share"],
    *["dollars_per_hour", "dollars_per_million_samples", "dollars_per_million_tokens", "train_dollars"],
)
"""Properties that the JSON has beside the fields."""

_NUMBERS = ("batch_per_gpu", "iteration_s", "update_s", "samples_per_s", "efficiency", "memory_bytes")
"""Figures that every run has: NaN, and null in JSON, for a point without a forecast."""

_STALENESS: Any = Mapping[str, float | tuple[tuple[int, int], ...]]
"""Mean, percentiles and maximum in versions, and the histogram as rows of (versions, gradients)."""

_DETAIL = _LOGS | frozenset(
    [
        *["spans", "layers", "links", "rank_names", "worker_breakdown_s", "worker_staleness"],
        *["iterations_s", "memory_lines"],
    ]
)
"""Fields with one row per span, layer, link, rank, gradient or iteration."""


@dataclass(frozen=True)
class Interval:
    """A confidence interval of the mean over replicates."""

    level: float
    iteration_s: tuple[float, float]
    samples_per_s: tuple[float, float]
    speedup: tuple[float, float] | None

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Interval:
        """Return the interval of a JSON document, with lists as tuples."""
        pairs = {key: tuple(value) for key, value in document.items() if isinstance(value, list | tuple)}
        return cls(**{**document, **pairs})


@dataclass(frozen=True)
class LinkLoad:
    """One link: bytes that it carries per iteration, and its mean utilisation over the iteration."""

    name: str
    kind: str
    src: str
    dst: str
    num_bytes: float
    utilisation: float


@dataclass(frozen=True)
class LinkClass:
    """All links of one kind (`pcie-2-x16`, `gemini-y`): number, bytes per iteration, load of the busiest."""

    kind: str
    num_links: int
    num_used: int
    num_bytes: float
    max_utilisation: float
    bytes_per_s: float


@dataclass(frozen=True)
class JobRun:
    """One of several jobs on a cluster; it starts `start_s` after the run.

    `iteration_s` is the mean time of a worker's iteration with the other jobs. `alone_iteration_s` is that of the same
    iterations without them, on the same GPUs and with the same random draws; `slowdown` is their ratio. Both exclude
    recovery from failures.
    """

    name: str
    model: str
    num_gpus: int
    start_s: float
    iteration_s: float
    samples_per_s: float
    alone_iteration_s: float
    slowdown: float


def mean_jobs(replicates: Sequence[Sequence[JobRun]]) -> tuple[JobRun, ...]:
    """Return the jobs with their means over all replicates."""
    return tuple(
        replace(
            same[0],
            **{
                key: float(np.mean([getattr(job, key) for job in same]))
                for key in ("iteration_s", "samples_per_s", "alone_iteration_s", "slowdown")
            },
        )
        for same in zip(*replicates, strict=True)
    )


@dataclass(frozen=True)
class MemoryLine:
    """Memory of one rank of a stage over an iteration: `num_bytes` [num] from each time `time_s` [num] on."""

    stage: int
    rank: int
    time_s: tuple[float, ...]
    num_bytes: tuple[float, ...]

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> MemoryLine:
        """Return the line of a JSON document, with lists as tuples."""
        columns = {key: tuple(document[key]) for key in ("time_s", "num_bytes")}
        return cls(**{**document, **columns})


@dataclass(frozen=True)
class PublishedFigure:
    """A published figure to compare with the forecast, of one metric."""

    num_gpus: int
    metric: str  # hours, speedup, samples_per_s, efficiency
    value: float
    source: str = ""
    note: str = ""


@dataclass(frozen=True)
class Run:
    """One forecast. Units: seconds, bytes, samples per second; shares are between 0 and 1.

    `layers` are rows of (name, op, forward_s, backward_s, provenance, gradient_bytes) of one GPU; `buckets` are rows of
    (name, num_bytes, algorithm); `worker_breakdown_s` is the breakdown per rank. `failures` is set if the scenario has
    failures: their share is the breakdown's `recovery`. `jobs` is set if several jobs share the cluster. The run is
    then the first job; its links carry the traffic of all jobs during its iteration.

    `gradients` counts those `applied` and `dropped` in all replicates, and `window_s` is the time that they took:
    `samples_per_s` is applied gradients times samples per gradient over `window_s`. `facts` are figures of the strategy
    or the layout, such as `spectral_gap`. Of the first replicate: `worker_staleness` is the mean staleness of each
    rank's own gradients, `updates` the update log, `cycles` every worker's iterations. `more_updates` are the update
    logs of the other simulated replicates. `adapters` is the number of network adapters per host that messages use, and
    the number of those for the GPUs in use; None where no message leaves a host. `iteration_dollars` is the cost of all
    workers' GPUs for `iteration_s`, and `iteration_joules` their energy at full power; None where a data sheet does not
    say. `tokens_per_sample` is set for models of language. `mfu` is the share of the GPUs' peak that the model's FLOP
    use, and `hfu` that with the FLOP of recomputed layers. `layout` is set where a rank does not train a whole replica:
    its `kind`, and its size along each axis (`tensor`, `context`, `expert`, `data`, `pipeline`); otherwise empty.
    `kernels` is the source of the times of single
    kernels, the `law` or `measured` tables. `gpu_memory_bytes` is the memory of a GPU, and
    `memory_lines` is the memory in use over time by stage. `software` and `transport` are the program and the message
    library, by name. `cards` are the network cards of a host: `per_host` of them, `bytes_per_s` each. It is empty where
    all GPUs are in one host. `features` are what its class of checked forecasts is found by, and `band` is where
    measurements of such forecasts lie. `anchor` is set if measured runs scale the forecast. `efficiency` is samples per
    second and GPU over those of the `baseline`. `speedup` is samples per second over all those of the baseline, unless
    the scenario gives another one; `speedup_basis` names what it is over. `baseline` is None in results of earlier
    versions. `learning` is what came of training a small model in the simulated order, if the scenario asks for it, and
    `learning_scale` the forecast for its own model from a gradient noise scale.
    `error` says why the point has no forecast. Its figures are then NaN, and null in JSON.
    """

    axes: Mapping[str, Any]
    num_gpus: int
    batch_per_gpu: float
    iteration_s: float
    update_s: float
    samples_per_s: float
    efficiency: float
    speedup: float | None
    speedup_basis: str
    time_to_train_s: float | None
    breakdown_s: Mapping[str, float]
    interval: Interval | None
    staleness: Mapping[str, Any]
    memory_bytes: float
    memory_parts: Mapping[str, float]
    provenance: Mapping[str, float]
    published: tuple[PublishedFigure, ...] = ()
    iterations_s: tuple[float, ...] = ()
    worker_breakdown_s: tuple[Mapping[str, float], ...] = ()
    layers: tuple[tuple[str, str, float, float, str, float], ...] = ()
    buckets: tuple[tuple[str, float, str], ...] = ()
    link_classes: tuple[LinkClass, ...] = ()
    links: tuple[LinkLoad, ...] = ()
    rank_names: tuple[str, ...] = ()
    failures: FailureTimes | None = None
    jobs: tuple[JobRun, ...] = ()
    gradients: Mapping[str, int] = field(default_factory=dict)
    window_s: float | None = None
    adapters: tuple[int, int] | None = None
    facts: Mapping[str, float] = field(default_factory=dict)
    worker_staleness: tuple[float | None, ...] = ()
    updates: UpdateLog = field(default_factory=UpdateLog, repr=False)
    more_updates: tuple[UpdateLog, ...] = field(default=(), repr=False)
    cycles: WorkerIterations = field(default_factory=WorkerIterations, repr=False)
    spans: Spans = field(default_factory=Spans, repr=False)
    gpu_memory_bytes: float | None = None
    iteration_dollars: float | None = None
    iteration_joules: float | None = None
    tokens_per_sample: float | None = None
    mfu: float | None = None
    hfu: float | None = None
    layout: Mapping[str, Any] = field(default_factory=dict)
    memory_lines: tuple[MemoryLine, ...] = field(default=(), repr=False)
    kernels: str = "law"
    software: str = ""
    transport: str = ""
    cards: Mapping[str, float] = field(default_factory=dict)
    anchor: Anchor | None = None
    features: Features | None = None
    band: Band | None = None
    baseline: Baseline | None = None
    learning: LearningRun | None = None
    learning_scale: LearningScale | None = None
    error: PointError | None = None

    @classmethod
    def failed(cls, axes: Mapping[str, Any], num_gpus: int, error: PointError) -> Run:
        """Return the run of a point without a forecast."""
        figures: dict[str, Any] = dict.fromkeys(_NUMBERS, nan)
        return cls(
            axes=axes,
            num_gpus=num_gpus,
            **figures,
            speedup=None,
            speedup_basis="",
            time_to_train_s=None,
            breakdown_s={},
            interval=None,
            staleness={},
            memory_parts={},
            provenance={},
            error=error,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickled run; failed ones have the same NaN again, so that they are equal to what was pickled."""
        self.__dict__.update(state if state["error"] is None else state | dict.fromkeys(_NUMBERS, nan))

    @property
    def speedup_baseline(self) -> Baseline | None:
        """The baseline if the speedup is over it; None if it is over one that the scenario gives, or is not known."""
        return self.baseline if self.baseline is not None and self.baseline.text in self.speedup_basis else None

    @property
    def has_ideal_network(self) -> bool:
        """Whether messages take no time but that of their bytes on the links."""
        return self.transport == "ideal" and self.num_gpus > 1

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens that are trained per second; None for models without tokens."""
        return None if self.tokens_per_sample is None else self.tokens_per_sample * self.samples_per_s

    @property
    def samples_per_s_per_gpu(self) -> float:
        """Samples that each GPU trains per second."""
        return self.samples_per_s / self.num_gpus

    @property
    def tokens_per_s_per_gpu(self) -> float | None:
        """Tokens that each GPU trains per second; None for models without tokens."""
        return None if self.tokens_per_s is None else self.tokens_per_s / self.num_gpus

    @property
    def host_share(self) -> float:
        """Share of an iteration in which a GPU waits for its host to issue kernels."""
        return self.breakdown_s.get("host", 0.0) / self.iteration_s

    @property
    def dollars_per_million_samples(self) -> float | None:
        """What a million trained samples cost; None where a GPU has no price."""
        return self.dollars_per_million("samples")

    @property
    def dollars_per_million_tokens(self) -> float | None:
        """What a million trained tokens cost; None where a GPU has no price, and for models without tokens."""
        return self.dollars_per_million("tokens") if self.tokens_per_sample else None

    @property
    def dollars_per_hour(self) -> float | None:
        """What all workers' GPUs cost for an hour; None where one has no price."""
        return None if self.iteration_dollars is None else self.iteration_dollars / self.iteration_s * 3600

    @property
    def train_dollars(self) -> float | None:
        """What the whole training costs; None where its length or a price is unknown."""
        hourly = self.dollars_per_hour
        return None if hourly is None or self.time_to_train_s is None else hourly * self.time_to_train_s / 3600

    def dollars_per_million(self, unit: Literal["tokens", "samples"]) -> float | None:
        """Return what a million trained samples cost, or tokens; None where a GPU has no price."""
        hourly = self.dollars_per_hour
        if hourly is None:
            return None
        each = (self.tokens_per_sample or 1) if unit == "tokens" else 1
        return hourly / 3600 * 1e6 / (self.samples_per_s * each)

    @property
    def stashes_weights(self) -> bool:
        """Whether workers have several gradients in flight, each on its own version of the weights."""
        return WEIGHT_VERSIONS in self.facts

    def __repr__(self) -> str:
        if self.error is not None:
            return f"<Run {self.num_gpus} GPUs: {self.error.kind}>"
        speedup = "" if self.speedup is None else f", {self.speedup:.1f}x"
        return f"<Run {self.num_gpus} GPUs: {self.samples_per_s:.0f} samples/s{speedup}>"

    def _repr_html_(self) -> str:
        return run_html(self)

    def to_dict(self, detail: bool = True) -> dict[str, Any]:
        """Return the run as JSON values; without `detail`, rows per span, layer, link and rank are omitted."""
        left_out: dict[str, Any] = dict.fromkeys(_LOGS if detail else _DETAIL)
        document = asdict(replace(self, **left_out))
        document["band"] = None if self.band is None else self.band.to_dict()
        document["learning"] = None if self.learning is None else self.learning.to_dict()
        document["error"] = None if self.error is None else self.error.to_dict()
        if self.error is not None:
            document |= dict.fromkeys((*_NUMBERS, *_DERIVED))
        else:
            document |= {key: getattr(self, key) for key in _DERIVED}
        if detail:
            document |= {"updates": self.updates.to_dict(), "cycles": self.cycles.to_dict()}
            document["more_updates"] = [log.to_dict() for log in self.more_updates]
            return document
        for key in _DETAIL:
            del document[key]
        if document["failures"] is not None:
            del document["failures"]["downtimes"]
        return document

    def wrong_types(self) -> Iterator[str]:
        """Yield what has another type than this class declares; a run with an error has no figures."""
        figures: dict[str, Any] = {} if self.error is None else dict.fromkeys(_NUMBERS, 0.0)
        yield from wrong_types(replace(self, **figures), Run)

    def contradictions(self) -> Iterator[str]:
        """Yield what cannot be true, of values of the right types: nothing for what a simulation gave."""
        if self.error is not None:
            return
        for name in ("num_gpus", "batch_per_gpu", "iteration_s", "samples_per_s"):
            if not getattr(self, name) > 0:
                yield f"{name} is {getattr(self, name)!r}, not above 0"
        if self.baseline is not None and not min(self.baseline.num_gpus, self.baseline.samples_per_s) > 0:
            yield "baseline has no GPUs or no rate above 0"
        if self.learning is not None:
            yield from (f"learning: {text}" for text in self.learning.contradictions())
        yield from wrong_types(self.staleness, _STALENESS, "staleness")
        needed = ("mean", "p99", "histogram") if self.staleness.get("max") else ("mean",) if self.staleness else ()
        for key in needed:
            if not isinstance(self.staleness.get(key), list | tuple if key == "histogram" else int | float):
                yield f"staleness lacks {key}"
        yield from (f"cards lacks {key}" for key in ("per_host", "bytes_per_s") if self.cards and key not in self.cards)
        for name in ("spans", "updates", "cycles"):
            lengths = {len(column) for column in vars(getattr(self, name)).values()}
            if len(lengths) > 1:
                yield f"{name} has columns of {min(lengths)} and {max(lengths)} rows"
        for name in ("spans", "cycles"):
            if not all(0 <= rank < self.num_gpus for rank in getattr(self, name).rank):
                yield f"{name}.rank has a rank that is not one of {self.num_gpus} GPUs"

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Run:
        """Return the run of a JSON document, with or without detail."""
        values = {key: value for key, value in document.items() if key not in _DERIVED}
        if values.get("error") is not None:
            values |= dict.fromkeys(_NUMBERS, nan) | {"error": PointError.from_dict(values["error"])}
        if values["interval"] is not None:
            values["interval"] = Interval.from_dict(values["interval"])
        if values.get("features") is not None:
            values["features"] = Features(**values["features"])
        if values.get("band") is not None:
            values["band"] = Band.from_dict(values["band"])
        if values.get("learning") is not None:
            values["learning"] = LearningRun.from_dict(values["learning"])
        if values.get("learning_scale") is not None:
            values["learning_scale"] = LearningScale(**values["learning_scale"])
        if values.get("baseline") is not None:
            values["baseline"] = Baseline(**values["baseline"])
        if values.get("adapters") is not None:
            values["adapters"] = tuple(values["adapters"])
        if values.get("anchor") is not None:
            values["anchor"] = Anchor.from_dict(values["anchor"])
        values["published"] = tuple(PublishedFigure(**row) for row in values.get("published", ()))
        values["link_classes"] = tuple(LinkClass(**row) for row in values.get("link_classes", ()))
        values["links"] = tuple(LinkLoad(**row) for row in values.get("links", ()))
        if values.get("failures") is not None:
            values["failures"] = FailureTimes.from_dict(values["failures"])
        values["jobs"] = tuple(JobRun(**row) for row in values.get("jobs", ()))
        values["memory_lines"] = tuple(MemoryLine.from_dict(line) for line in values.get("memory_lines", ()))
        values["spans"] = Spans(**values.get("spans", {}))
        values["updates"] = UpdateLog.from_dict(values.get("updates", {}))
        values["more_updates"] = tuple(UpdateLog.from_dict(log) for log in values.get("more_updates", ()))
        values["cycles"] = WorkerIterations.from_dict(values.get("cycles", {}))
        for key in ("layers", "buckets"):
            values[key] = tuple(tuple(row) for row in values.get(key, ()))
        for key in ("worker_breakdown_s", "rank_names", "iterations_s", "worker_staleness"):
            values[key] = tuple(values.get(key, ()))
        return cls(**values)


@dataclass(frozen=True)
class Sweep:
    """All runs of one scenario, with assumptions, warnings and shortcuts."""

    version: str
    scenario: Mapping[str, Any]
    seed: int
    runs: tuple[Run, ...]
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    shortcuts: tuple[str, ...] = ()
    scenario_text: str = ""

    @property
    def name(self) -> str:
        return str(self.scenario.get("name", "scenario"))

    @cached_property
    def ran(self) -> tuple[Run, ...]:
        """The runs that have a forecast."""
        return tuple(run for run in self.runs if run.error is None)

    @cached_property
    def failed(self) -> tuple[Run, ...]:
        """The runs without a forecast, each with its `error`."""
        return tuple(run for run in self.runs if run.error is not None)

    def __repr__(self) -> str:
        sizes = [run.num_gpus for run in self.runs]
        gpus = f", {min(sizes)} to {max(sizes)} GPUs" if len(set(sizes)) > 1 else f", {sizes[0]} GPUs" if sizes else ""
        failed = f", {len(self.failed)} without a forecast" if self.failed else ""
        return f"<Sweep {self.name!r}: {len(self.runs)} run{'' if len(self.runs) == 1 else 's'}{gpus}{failed}>"

    def _repr_html_(self) -> str:
        """Return the report in a frame, for a notebook; this room draws nothing, so it asks at the front door."""
        import clustersim

        table = sweep_html(self)
        return framed(clustersim.report_html(self), f"report of {self.name}", table) if self.runs else table

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print the table of the terminal for IPython, and one line where the sweep is part of something."""
        import clustersim

        is_part = cycle or len(printer.stack) > 1
        printer.text(repr(self) if is_part or not self.runs else clustersim.report_text(self).rstrip())

    def wrong_types(self) -> Iterator[str]:
        """Yield what has another type than these classes declare."""
        yield from wrong_types(replace(self, runs=()), Sweep)
        for number, run in enumerate(self.runs):
            yield from (f"runs.{number}.{text}" for text in run.wrong_types())

    def contradictions(self) -> Iterator[str]:
        """Yield what cannot be true of a run, of values of the right types: nothing for what a simulation gave."""
        if not self.runs:
            yield "it has no runs"
        for number, run in enumerate(self.runs):
            yield from (f"runs.{number}.{text}" for text in run.contradictions())

    def to_rows(self) -> list[dict[str, Cell]]:
        """Return each run as flat columns with the unit in the name, as the CSV has them; None is not known."""
        return rows_of(self, BREAKDOWN)

    def to_pandas(self) -> DataFrame:
        """Return the rows of `to_rows` as a pandas data frame; InputError where pandas is not installed."""
        return data_frame(self.to_rows())

    def to_polars(self) -> PolarsFrame:
        """Return the rows of `to_rows` as a polars data frame; InputError where polars is not installed."""
        return polars_frame(self.to_rows())

    def to_dict(self, detail: bool = True) -> dict[str, Any]:
        """Return the sweep as a `clustersim.result/1` document."""
        return {
            "schema": RESULT_SCHEMA,
            "version": self.version,
            "scenario": dict(self.scenario),
            "seed": self.seed,
            "runs": [run.to_dict(detail) for run in self.runs],
            "assumptions": list(self.assumptions),
            "warnings": list(self.warnings),
            "shortcuts": list(self.shortcuts),
            "scenario_text": self.scenario_text,
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Sweep:
        """Return the sweep of a `clustersim.result/1` document."""
        return cls(
            version=document["version"],
            scenario=document["scenario"],
            seed=document["seed"],
            runs=tuple(Run.from_dict(run) for run in document["runs"]),
            assumptions=tuple(document["assumptions"]),
            warnings=tuple(document["warnings"]),
            shortcuts=tuple(document["shortcuts"]),
            scenario_text=document.get("scenario_text", ""),
        )
