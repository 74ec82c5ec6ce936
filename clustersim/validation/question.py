"""What a measured figure asks the simulator: a training at one point, or one collective; and the answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from clustersim.errors import InputError, Mistake
from clustersim.reading.explain import explain
from clustersim.reading.tree import Node
from clustersim.results import Run
from clustersim.results.budget import compute_kind, layout_kind, model_kind
from clustersim.scenario import Point, load_scenario
from clustersim.scenario.files import read_scenario
from clustersim.scenario.overrides import apply_overrides
from clustersim.simulate import Workloads, forecast, time_collective
from clustersim.simulate.garbage import seldom_collected
from clustersim.spec import Spec
from clustersim.units import Size
from clustersim.validation.left_out import sheet_without

_WAYS = {"strategy", "compression", "parallelism", "transport"}
"""Keys that say how a job synchronises: points that differ in nothing else are ranked against each other."""

_NUMBA_FROM_MESSAGES = 3_000
"""Messages of a network from which on compiled kernels take less time, handover included, once they are loaded.

A validation simulates a thousand networks and gets the time of loading back with the first few.
"""

_WORDS = {"name", "description", "published", "baseline", "seed"}


class CollectiveQuestion(Spec):
    """One collective on an idle cluster, as nccl-tests and its like measure it."""

    collective: str = Field(description="such as all-reduce or broadcast")
    topology: str | dict[str, Any] = Field(description="a shipped cluster's name, or a map with its kind")
    num_gpus: int = Field(ge=1, description="how many GPUs take part")
    bytes: Size = Field(description="the size of the buffer, such as '4 KiB'")
    algorithm: str = Field(default="auto", description="such as ring; auto is what the transport's library takes")
    transport: str = Field(description="the message library")
    description: str = Field(default="", description="what is measured, in a line")


@dataclass(frozen=True)
class Question:
    """A file of a case and what one row sets in it; rows that ask the same are answered once."""

    file: Path
    overrides: tuple[str, ...]


@dataclass(frozen=True)
class Answer:
    """What came of a question: a document with the metrics, or mistakes in the input, or why it failed.

    `group` is the same for points that differ in nothing but how they synchronise, `way` says how that is, and
    `features` say what kind of training it was; a collective is none.
    """

    document: Mapping[str, Any] | None = None
    group: str = ""
    way: str = ""
    features: Mapping[str, Any] | None = None
    mistakes: tuple[Mistake, ...] = ()
    failure: str = ""


@seldom_collected()
def answer(question: Question) -> Answer:
    """Simulate one question. Nothing is raised for what its input or the simulation can cause."""
    try:
        asked = read_collective(question)
        return _training(question) if asked is None else _collective(asked)
    except InputError as error:
        return Answer(mistakes=error.mistakes)
    except Exception as error:  # told under `skipped`, with everything else still compared
        return Answer(failure=f"{type(error).__name__}: {error}")


def _training(question: Question) -> Answer:
    scenario = load_scenario(question.file, overrides=question.overrides)
    points = scenario.points()
    if len(points) != 1:
        lists = ", ".join(scenario.axes)
        message = f"the figure belongs to one point and this is a sweep over {lists}; give these a column"
        raise InputError(message, got=f"{len(points)} points", allowed="one point")
    asked = points[0].point
    fair = _fairly(question, asked)
    run = forecast(fair, workloads=_WORKLOADS, detail=False, numba_from_messages=_NUMBA_FROM_MESSAGES).run
    document = replace(run, axes={}).to_dict(detail=False)
    group, way = group_and_way(asked)
    return Answer(document, group, way, features(asked, run))


_WORKLOADS = Workloads()
"""What this process has worked out of models' layers."""


def _fairly(question: Question, point: Point) -> Point:
    """Return the point with constants of its transport that its own case had no part in."""
    sheet = sheet_without(question.file.resolve().parent.name, point.transport)
    if sheet is None:
        return point
    overrides = [*question.overrides, f"transport={sheet}"]
    return load_scenario(question.file, overrides=overrides).points()[0].point


def read_collective(
    question: Question, read: Callable[[Path], tuple[Node, Sequence[Mistake]]] = read_scenario
) -> CollectiveQuestion | None:
    """Return the collective that a question asks for; None where it is a training. Every mistake in it is raised.

    `read` gives a file's tree and its lesser mistakes, such as one that keeps what it has read.
    """
    root, mistakes = read(question.file)
    if "collective" not in root.children:
        return None
    root, wrong = apply_overrides(root, question.overrides)
    try:
        asked = CollectiveQuestion.model_validate_json(json.dumps(root.plain()), strict=True)
    except ValidationError as error:
        found = [problem.mistake for problem in explain(error, root, CollectiveQuestion)]
        raise InputError([*mistakes, *wrong, *found]) from None
    if mistakes or wrong:
        raise InputError([*mistakes, *wrong])
    return asked


def _collective(asked: CollectiveQuestion) -> Answer:
    document = time_collective(
        asked.collective,
        asked.topology,
        asked.algorithm,
        asked.num_gpus,
        [asked.bytes],
        asked.transport,
        numba_from_messages=_NUMBA_FROM_MESSAGES,
    )
    row = {**document["rows"][0], "num_gpus": asked.num_gpus}
    plain = asked.model_dump(exclude={"algorithm", "transport", "description"})
    way = f"{asked.transport} {asked.algorithm}"
    return Answer(row, json.dumps(plain, sort_keys=True, default=str), way)


def group_and_way(point: Point) -> tuple[str, str]:
    """Return what is the same for points that only synchronise differently, and how this one does."""
    everything = json.loads(point.model_dump_json(exclude=_WORDS))
    way = {key: everything.pop(key) for key in sorted(_WAYS)}
    return json.dumps(everything, sort_keys=True), json.dumps(way, sort_keys=True)


def features(point: Point, run: Run) -> dict[str, Any]:
    """Return what kind of training a point is, as the error budget tells kinds apart."""
    return {
        "strategy": point.strategy.kind,
        "transport": point.transport,
        "num_gpus": point.num_gpus,
        "num_hosts": len({name.rpartition("/")[0] or name for name in run.rank_names}),
        "model": model_kind(point.model),
        "layout": layout_kind(run.layout),
        "compute": compute_kind(run.provenance),
    }
