"""Reads a run file (`clustersim.real-run/1`): measurements of the worker on real nodes, phase by phase.

Unknown keys are ignored: a newer worker may write more. Incomplete parts are reported, and everything else is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from clustersim.errors import InputError, Mistake
from clustersim.reading import explain, from_python, read_text
from clustersim.validation.real_json import read_whole_part

REAL_RUN_SCHEMA = "clustersim.real-run/1"
MAX_BYTES = 256 << 20
_SCHEMA = re.compile(r"clustersim\.real-run/(\d+)")


class _Loose(BaseModel):
    """A part of the file; unknown keys are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class SpanColumns(_Loose):
    """Spans of all ranks by column: seconds from the start of the run, on one clock."""

    kind: list[str] = []
    rank: list[int] = []
    iteration: list[int] = []
    start_s: list[float] = []
    end_s: list[float] = []
    name: list[str] = []

    @model_validator(mode="after")
    def _have_one_length(self) -> SpanColumns:
        if len({len(column) for _, column in self}) > 1:
            raise ValueError("the columns of spans differ in length")
        return self


class StalenessFact(_Loose):
    """The staleness of gradients when they were applied, in versions."""

    mean: float = Field(ge=0)


class StragglerFact(_Loose):
    """The rank that was slowed down, and the factor on its compute time."""

    rank: int = Field(ge=0)
    factor: float = Field(gt=1)


class LayerRow(_Loose):
    """The seconds of one layer: data and weights separate if kernels were timed, together if a training was timed."""

    name: str
    op: str = ""
    fused: list[str] = []
    forward_s: float = Field(ge=0)
    backward_s: float = Field(default=0.0, ge=0)
    backward_data_s: float = Field(default=0.0, ge=0)
    backward_weights_s: float = Field(default=0.0, ge=0)


class SweepRow(_Loose):
    """The time of an all-reduce of one size."""

    num_bytes: float = Field(gt=0)
    time_s: float = Field(gt=0)


class AllReducePhase(_Loose):
    """The phase `all-reduce`."""

    name: str
    kind: str
    rows: list[SweepRow] = Field(min_length=1)


class TrainingPhase(_Loose):
    """The base of all phases of trainings: the model and the samples per rank."""

    name: str
    kind: str
    model: str
    batch: int = Field(ge=1)
    precision: str = "fp32"
    straggler: StragglerFact | None = None
    spans: SpanColumns = SpanColumns()


class LayersPhase(TrainingPhase):
    """The phase `layers`: every kernel is timed separately."""

    layers: list[LayerRow] = Field(min_length=1)
    update_s: float = Field(ge=0)


class ComputePhase(TrainingPhase):
    """The phase `compute`: training without communication."""

    iteration_s: float = Field(gt=0)
    forward_s: float = Field(gt=0)
    backward_s: float = Field(gt=0)
    update_s: float = Field(ge=0)
    layers: list[LayerRow] = Field(min_length=1)


class SynchronousPhase(TrainingPhase):
    """The synchronous phases, and `communication`, which does not compute."""

    iteration_s: float = Field(gt=0)
    buckets: list[float] = []
    workers: list[int] | None = None


class AsynchronousPhase(TrainingPhase):
    """The phase `async`: asynchronous workers, whose gradients a server applies in order of arrival."""

    update_s: float = Field(gt=0)
    staleness: StalenessFact
    updates: dict[str, list[float]] = {}
    workers: list[int] = Field(min_length=1)


Phase = AllReducePhase | LayersPhase | ComputePhase | SynchronousPhase | AsynchronousPhase

KINDS: Mapping[str, type[AllReducePhase | TrainingPhase]] = {
    "all-reduce": AllReducePhase,
    "layers": LayersPhase,
    "compute": ComputePhase,
    "communication": SynchronousPhase,
    "overlap": SynchronousPhase,
    "no-overlap": SynchronousPhase,
    "server": SynchronousPhase,
    "async": AsynchronousPhase,
}
"""Every kind of phase, and its model."""


class DeviceFact(_Loose):
    """A device as reported by torch."""

    name: str
    kind: str
    memory_bytes: float | None = None
    num_multiprocessors: int | None = None


class RankFact(_Loose):
    """The host and the device of a rank."""

    host: int = Field(ge=0)
    local_rank: int = Field(ge=0)
    device: DeviceFact
    memory_bytes_per_s: float = Field(gt=0)
    clock_error_s: float = 0.0


class HostFact(_Loose):
    """What a host reports about itself."""

    num_cores: int | None = None
    nvidia_smi_topo: str | None = None
    interfaces: list[dict[str, Any]] = []
    infiniband: list[dict[str, Any]] = []


class Facts(_Loose):
    """The nodes of the run."""

    backend: str
    ranks: list[RankFact] = Field(min_length=1)
    hosts: list[HostFact | None] = []
    nccl_topology: str | None = None
    software: dict[str, Any] = {}

    @property
    def num_hosts(self) -> int:
        return len({rank.host for rank in self.ranks})


@dataclass(frozen=True)
class RealRun:
    """A run file: its complete phases, and notes on what is missing."""

    path: Path
    facts: Facts
    phases: tuple[Phase, ...]
    missing: tuple[str, ...]

    def phase(self, kind: str, model: str | None = None) -> Phase | None:
        """Return the first phase of a kind, and of a model if one is given."""
        return next((each for each in self.phases if each.kind == kind and model in (None, _model(each))), None)


def read_real_run(path: Path) -> RealRun:
    """Return the contents of a run file. Another file is refused; an incomplete one lists what is missing."""
    salvaged = read_whole_part(read_text(path, MAX_BYTES))
    document = salvaged.document
    missing = [_of_schema(path, document.get("schema"))]
    if salvaged.lost:
        missing.append(f"the file is cut off or damaged at {salvaged.lost}; what follows is not compared")
    facts = _facts(path, document)
    phases, wrong = _phases(document.get("phases"))
    missing += [*wrong, *_never_run(document, salvaged.lost)]
    return RealRun(path, facts, tuple(phases), tuple(filter(None, missing)))


def _of_schema(path: Path, schema: object) -> str:
    """Refuse a file that no worker wrote; return a note for a newer version, and nothing for this one."""
    match = _SCHEMA.fullmatch(schema) if isinstance(schema, str) else None
    if match is None:
        message = f"this is not a run file of validate/real_run/worker.py, whose schema is '{REAL_RUN_SCHEMA}'"
        raise InputError(Mistake(message, "schema", str(path), got=str(schema)[:60], allowed=REAL_RUN_SCHEMA))
    if int(match[1]) > 1:
        return (
            f"the file is {match[0]}, of a newer worker than this clustersim, which reads {REAL_RUN_SCHEMA}: "
            "known parts are compared; a newer clustersim may compare more"
        )
    return ""


def _facts(path: Path, document: Mapping[str, Any]) -> Facts:
    facts = document.get("facts")
    try:
        return Facts.model_validate(facts)
    except ValidationError as error:
        raise InputError(
            Mistake(f"the facts of the nodes are wrong or missing: {_first(error, facts, Facts)}", "facts", str(path))
        ) from None


def _phases(rows: object) -> tuple[list[Phase], list[str]]:
    """Return the phases that can be read, and why others cannot."""
    phases: list[Any] = []
    wrong = []
    for number, row in enumerate(rows if isinstance(rows, list) else ()):
        name = str(row.get("name", f"phase {number}")) if isinstance(row, dict) else f"phase {number}"
        kind = row.get("kind") if isinstance(row, dict) else None
        if not isinstance(kind, str) or kind not in KINDS:
            wrong.append(f"{name}: unknown kind of phase {str(kind)[:40]!r} (known: {', '.join(KINDS)})")
            continue
        try:
            phases.append(KINDS[kind].model_validate(row))
        except ValidationError as error:
            wrong.append(f"{name}: {_first(error, row, KINDS[kind])}")
    return phases, wrong


def _never_run(document: Mapping[str, Any], lost: str) -> list[str]:
    """Return which phases were not measured, and the failure that ended the job."""
    rows = document.get("phases")
    done = {str(row.get("name")) for row in rows if isinstance(row, dict)} if isinstance(rows, list) else set()
    planned = document.get("planned")
    open_phases = [name for name in map(str, planned) if name not in done] if isinstance(planned, list) else []
    failure = document.get("failure")
    notes = []
    if isinstance(failure, dict):
        notes.append(f"{failure.get('phase')}: the job failed here ({failure.get('reason')})")
        open_phases = [name for name in open_phases if name != str(failure.get("phase"))]
    why = "is not in the readable part of the file" if lost else "was not measured: the job ended before it"
    return notes + [f"{name}: {why}" for name in open_phases]


def _first(error: ValidationError, value: object, model: type[BaseModel]) -> str:
    """Return the first mistake, with its place."""
    try:
        return str(explain(error, from_python(value), model)[0].mistake)
    except InputError as not_finite:
        return str(not_finite)


def _model(phase: Phase) -> str | None:
    return None if isinstance(phase, AllReducePhase) else phase.model
