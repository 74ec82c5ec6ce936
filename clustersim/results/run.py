"""A run is one point of the axes; a sweep is many runs of one scenario. Their JSON form is `clustersim.result/1`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from clustersim.results.cycles import Cycles
from clustersim.results.failures import FailureTimes
from clustersim.results.html import run_html, sweep_html
from clustersim.results.jobs import JobRun
from clustersim.results.memory import MemoryLine
from clustersim.results.trace import Spans
from clustersim.results.updates import UpdateLog

RESULT_SCHEMA = "clustersim.result/1"

BREAKDOWN = ("compute", "slowed", "communication_exposed", "waiting", "input", "bubble", "offload", "recovery")
"""The parts of an iteration, in the order they are told; they sum to `iteration_s`."""

WEIGHT_VERSIONS = "weight_versions"
"""The fact of a run in which workers stash weights: how many versions of them at most."""

_LOGS = frozenset(["cycles", "updates", "more_updates"])
"""What writes itself down as JSON values."""

_DETAIL = _LOGS | frozenset(
    [
        *["spans", "layers", "links", "rank_names", "worker_breakdown_s", "worker_staleness"],
        *["iterations_s", "memory_lines"],
    ]
)
"""What a run has a row of for each span, layer, link, rank, gradient or iteration."""


@dataclass(frozen=True)
class Interval:
    """A confidence interval of the mean over replicates."""

    level: float
    iteration_s: tuple[float, float]
    samples_per_s: tuple[float, float]
    speedup: tuple[float, float] | None

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Interval:
        """Read an interval whose pairs have become lists."""
        pairs = {key: tuple(value) for key, value in document.items() if isinstance(value, list | tuple)}
        return cls(**{**document, **pairs})


@dataclass(frozen=True)
class LinkLoad:
    """One busy link: bytes it carried per iteration and its mean utilisation over the iteration."""

    name: str
    kind: str
    src: str
    dst: str
    num_bytes: float
    utilisation: float


@dataclass(frozen=True)
class LinkClass:
    """All links of one kind (`pcie-2-x16`, `gemini-y`): how many, bytes per iteration, and the busiest one."""

    kind: str
    num_links: int
    num_used: int
    num_bytes: float
    max_utilisation: float
    bytes_per_s: float


@dataclass(frozen=True)
class Published:
    """A figure somebody published, to be drawn beside the forecast; exactly one of the metrics is given."""

    num_gpus: int
    metric: str  # hours, speedup, samples_per_s, efficiency
    value: float
    source: str = ""
    note: str = ""


@dataclass(frozen=True)
class Run:
    """One forecast. Seconds, bytes, samples per second; shares between 0 and 1.

    `layers` are rows of (name, op, forward_s, backward_s, provenance, gradient_bytes) of one GPU;
    `buckets` rows of (name, num_bytes, algorithm); `worker_breakdown_s` has the breakdown per rank. `failures`
    is there where the scenario has failures: their share is the breakdown's `recovery`. `jobs` are there where several
    share the cluster; the run is the first, and its links carry what all of them send in the time of its iteration.

    `gradients` counts those `applied` and `dropped` in all replicates, and `window_s` is the time that they took:
    `samples_per_s` is gradients applied times samples of a gradient over it. `facts` are figures of the strategy
    or the layout itself, such as `spectral_gap`. Of the first replicate: `worker_staleness`, the mean of each rank's
    gradients, where it has any of its own; `updates`, the update log; `cycles`, every worker's iterations.
    `more_updates` are the update logs of the other replicates that were played. `adapters` are how many of its network
    adapters messages leave a host by, and how many it has for the GPUs in use, where they leave one.
    `iteration_dollars` is what all GPUs of the workers cost for `iteration_s`, and `iteration_joules` what they take at
    their full power; None where a sheet does not say. `layout` says how ranks lie where each does not train a
    whole copy by itself: its `kind`, and how many there are along each axis (`tensor`, `context`, `expert`, `data`,
    `pipeline`); empty else. `gpu_memory_bytes` is what a GPU has room for, and `memory_lines`
    what the stages of a layout hold over time.
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
    published: tuple[Published, ...] = ()
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
    cycles: Cycles = field(default_factory=Cycles, repr=False)
    spans: Spans = field(default_factory=Spans, repr=False)
    gpu_memory_bytes: float | None = None
    iteration_dollars: float | None = None
    iteration_joules: float | None = None
    layout: Mapping[str, Any] = field(default_factory=dict)
    memory_lines: tuple[MemoryLine, ...] = field(default=(), repr=False)

    @property
    def stashes_weights(self) -> bool:
        """Whether workers have several gradients under way, each on weights of its own."""
        return WEIGHT_VERSIONS in self.facts

    def __repr__(self) -> str:
        speedup = "" if self.speedup is None else f", {self.speedup:.1f}x"
        return f"<Run {self.num_gpus} GPUs: {self.samples_per_s:.0f} samples/s{speedup}>"

    def _repr_html_(self) -> str:
        return run_html(self)

    def to_dict(self, detail: bool = True) -> dict[str, Any]:
        """Return the run as JSON values; without `detail`, the rows per span, layer, link and rank are left out."""
        left_out: dict[str, Any] = dict.fromkeys(_LOGS if detail else _DETAIL)
        document = asdict(replace(self, **left_out))
        if detail:
            document |= {"updates": self.updates.to_dict(), "cycles": self.cycles.to_dict()}
            document["more_updates"] = [log.to_dict() for log in self.more_updates]
            return document
        for key in _DETAIL:
            del document[key]
        if document["failures"] is not None:
            del document["failures"]["downtimes"]
        return document

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Run:
        """Read what `to_dict` wrote, with or without the detail."""
        values = dict(document)
        if values["interval"] is not None:
            values["interval"] = Interval.from_dict(values["interval"])
        if values.get("adapters") is not None:
            values["adapters"] = tuple(values["adapters"])
        values["published"] = tuple(Published(**row) for row in values.get("published", ()))
        values["link_classes"] = tuple(LinkClass(**row) for row in values.get("link_classes", ()))
        values["links"] = tuple(LinkLoad(**row) for row in values.get("links", ()))
        if values.get("failures") is not None:
            values["failures"] = FailureTimes.from_dict(values["failures"])
        values["jobs"] = tuple(JobRun(**row) for row in values.get("jobs", ()))
        values["memory_lines"] = tuple(MemoryLine.from_dict(line) for line in values.get("memory_lines", ()))
        values["spans"] = Spans(**values.get("spans", {}))
        values["updates"] = UpdateLog.from_dict(values.get("updates", {}))
        values["more_updates"] = tuple(UpdateLog.from_dict(log) for log in values.get("more_updates", ()))
        values["cycles"] = Cycles.from_dict(values.get("cycles", {}))
        for key in ("layers", "buckets"):
            values[key] = tuple(tuple(row) for row in values.get(key, ()))
        for key in ("worker_breakdown_s", "rank_names", "iterations_s", "worker_staleness"):
            values[key] = tuple(values.get(key, ()))
        return cls(**values)


@dataclass(frozen=True)
class Sweep:
    """All runs of one scenario, with what they stand on."""

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

    def _repr_html_(self) -> str:
        return sweep_html(self)

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
        """Read a `clustersim.result/1` document."""
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
