"""Reads a run file (`clustersim.real-run/1`): what the worker measured on real nodes, phase by phase.

Keys that are not known are not looked at, as a newer worker may write more. What is not whole is told, and everything
else is read.
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
    """A part of the file; keys that nobody asks for are left alone."""

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
    def _are_as_long(self) -> SpanColumns:
        if len({len(column) for _, column in self}) > 1:
            raise ValueError("the columns of spans differ in length")
        return self


class Staleness(_Loose):
    """How many versions old gradients were when they were applied."""

    mean: float = Field(ge=0)


class StragglerFact(_Loose):
    """The rank that was slowed down, and how many times as long its compute took."""

    rank: int = Field(ge=0)
    factor: float = Field(gt=1)


class LayerRow(_Loose):
    """One layer's seconds: data and weights apart where kernels were timed, together where training was watched."""

    name: str
    op: str = ""
    fused: list[str] = []
    forward_s: float = Field(ge=0)
    backward_s: float = Field(default=0.0, ge=0)
    backward_data_s: float = Field(default=0.0, ge=0)
    backward_weights_s: float = Field(default=0.0, ge=0)


class SweepRow(_Loose):
    """What an all-reduce of one size took."""

    num_bytes: float = Field(gt=0)
    time_s: float = Field(gt=0)


class Sweep(_Loose):
    """The phase `all-reduce`."""

    name: str
    kind: str
    rows: list[SweepRow] = Field(min_length=1)


class Training(_Loose):
    """What every phase of a training has: what is trained and how many samples a rank takes."""

    name: str
    kind: str
    model: str
    batch: int = Field(ge=1)
    precision: str = "fp32"
    straggler: StragglerFact | None = None
    spans: SpanColumns = SpanColumns()


class Layers(Training):
    """The phase `layers`: every kernel timed by itself."""

    layers: list[LayerRow] = Field(min_length=1)
    update_s: float = Field(ge=0)


class Compute(Training):
    """The phase `compute`: training without sending anything."""

    iteration_s: float = Field(gt=0)
    forward_s: float = Field(gt=0)
    backward_s: float = Field(gt=0)
    update_s: float = Field(ge=0)
    layers: list[LayerRow] = Field(min_length=1)


class InStep(Training):
    """The phases in which all ranks march in step, and `communication`, which does not compute."""

    iteration_s: float = Field(gt=0)
    buckets: list[float] = []
    workers: list[int] | None = None


class Asynchronous(Training):
    """The phase `async`: workers out of step, whose gradients a server applies as they come."""

    update_s: float = Field(gt=0)
    staleness: Staleness
    updates: dict[str, list[float]] = {}
    workers: list[int] = Field(min_length=1)


Phase = Sweep | Layers | Compute | InStep | Asynchronous

KINDS: Mapping[str, type[Sweep | Training]] = {
    "all-reduce": Sweep,
    "layers": Layers,
    "compute": Compute,
    "communication": InStep,
    "overlap": InStep,
    "no-overlap": InStep,
    "server": InStep,
    "async": Asynchronous,
}
"""Every kind of phase, and what it has."""


class DeviceFact(_Loose):
    """A device as torch describes it."""

    name: str
    kind: str
    memory_bytes: float | None = None
    num_multiprocessors: int | None = None


class RankFact(_Loose):
    """Where a rank was: on which host, and on what."""

    host: int = Field(ge=0)
    local_rank: int = Field(ge=0)
    device: DeviceFact
    memory_bytes_per_s: float = Field(gt=0)
    clock_error_s: float = 0.0


class HostFact(_Loose):
    """What a host says of itself."""

    num_cores: int | None = None
    nvidia_smi_topo: str | None = None
    interfaces: list[dict[str, Any]] = []
    infiniband: list[dict[str, Any]] = []


class Facts(_Loose):
    """What the nodes were."""

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
    """A run file: the phases that are whole, and what is to be said of the rest."""

    path: Path
    facts: Facts
    phases: tuple[Phase, ...]
    missing: tuple[str, ...]

    def phase(self, kind: str, model: str | None = None) -> Phase | None:
        """Return the first phase of a kind, of a model where one is named."""
        return next((each for each in self.phases if each.kind == kind and model in (None, _model(each))), None)


def read_real_run(path: Path) -> RealRun:
    """Return what a run file has. A file that is none is refused; one that is not whole says what it lacks."""
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
    """Refuse what no worker has written; return what to say of a newer one's file, nothing of this one's."""
    match = _SCHEMA.fullmatch(schema) if isinstance(schema, str) else None
    if match is None:
        message = f"this is no run file of validate/real_run/worker.py, whose schema is '{REAL_RUN_SCHEMA}'"
        raise InputError(Mistake(message, "schema", str(path), got=str(schema)[:60], allowed=REAL_RUN_SCHEMA))
    if int(match[1]) > 1:
        return (
            f"the file is {match[0]}, of a newer worker than this clustersim, which knows {REAL_RUN_SCHEMA}: what it "
            "knows of the file is compared; a newer clustersim may know more"
        )
    return ""


def _facts(path: Path, document: Mapping[str, Any]) -> Facts:
    facts = document.get("facts")
    try:
        return Facts.model_validate(facts)
    except ValidationError as error:
        raise InputError(
            Mistake(f"the file does not say what it was measured on: {_first(error, facts, Facts)}", "facts", str(path))
        ) from None


def _phases(rows: object) -> tuple[list[Phase], list[str]]:
    """Return the phases that can be read, and why others cannot."""
    phases: list[Any] = []
    wrong = []
    for number, row in enumerate(rows if isinstance(rows, list) else ()):
        name = str(row.get("name", f"phase {number}")) if isinstance(row, dict) else f"phase {number}"
        kind = row.get("kind") if isinstance(row, dict) else None
        if not isinstance(kind, str) or kind not in KINDS:
            wrong.append(f"{name}: nobody here knows a phase of kind {str(kind)[:40]!r} (known: {', '.join(KINDS)})")
            continue
        try:
            phases.append(KINDS[kind].model_validate(row))
        except ValidationError as error:
            wrong.append(f"{name}: {_first(error, row, KINDS[kind])}")
    return phases, wrong


def _never_run(document: Mapping[str, Any], lost: str) -> list[str]:
    """Say which phases the job did not come to, and what ended it."""
    rows = document.get("phases")
    done = {str(row.get("name")) for row in rows if isinstance(row, dict)} if isinstance(rows, list) else set()
    planned = document.get("planned")
    open_phases = [name for name in map(str, planned) if name not in done] if isinstance(planned, list) else []
    failure = document.get("failure")
    told = []
    if isinstance(failure, dict):
        told.append(f"{failure.get('phase')}: the job failed here ({failure.get('reason')})")
        open_phases = [name for name in open_phases if name != str(failure.get("phase"))]
    why = "is not in what is left of the file" if lost else "was never measured: the job ended before"
    return told + [f"{name}: {why}" for name in open_phases]


def _first(error: ValidationError, value: object, model: type[BaseModel]) -> str:
    """Say the first thing that is wrong, and where."""
    try:
        return str(explain(error, from_python(value), model)[0].mistake)
    except InputError as not_finite:
        return str(not_finite)


def _model(phase: Phase) -> str | None:
    return None if isinstance(phase, Sweep) else phase.model
