"""The simulation for a measured figure: a training at one point, or one collective; and its result."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from clustersim.errors import InputError, Mistake
from clustersim.garbage_collection import rare_collections
from clustersim.reading.explain import explain
from clustersim.reading.tree import TreeNode
from clustersim.scenario import Point, load_scenario
from clustersim.scenario.files import read_scenario
from clustersim.scenario.overrides import apply_overrides
from clustersim.simulate import Workloads, forecast, time_collective
from clustersim.spec import Spec
from clustersim.units import Size
from clustersim.validation.leave_one_out import sheet_without

_METHOD_KEYS = {"strategy", "compression", "parallelism", "software", "transport"}
"""Keys of the synchronization method: points that differ only in these are ranked against each other."""

_NUMBA_FROM_MESSAGES = 3_000
"""Messages of a network from which on compiled kernels take less time, handover included, once they are loaded.

A validation simulates a thousand networks and gets the time of loading back with the first few.
"""

_WORDS = {"name", "description", "published", "baseline", "seed"}


class CollectiveQuestion(Spec):
    """One collective on an idle cluster, as measured by nccl-tests and similar tools."""

    collective: str = Field(description="such as all-reduce or broadcast")
    topology: str | dict[str, Any] = Field(description="the name of a shipped cluster, or a map with its kind")
    num_gpus: int = Field(ge=1, description="number of GPUs in the collective")
    bytes: Size = Field(description="the size of the buffer, such as '4 KiB'")
    algorithm: str = Field(default="auto", description="such as ring; auto is the choice of the transport's library")
    transport: str = Field(description="the message library")
    description: str = Field(default="", description="what is measured, in one line")


@dataclass(frozen=True)
class Question:
    """A file of a case and the settings of one row; equal questions are answered once."""

    file: Path
    overrides: tuple[str, ...]


@dataclass(frozen=True)
class Answer:
    """The result of a question: a document with the metrics, or mistakes in the input, or the reason of a failure.

    `group` is equal for points that differ only in the synchronization method, which is `method`. `features` are those
    of the forecast (`results.features`); None for a collective.
    """

    document: Mapping[str, Any] | None = None
    group: str = ""
    method: str = ""
    features: Mapping[str, Any] | None = None
    mistakes: tuple[Mistake, ...] = ()
    failure: str = ""


@rare_collections()
def answer(question: Question) -> Answer:
    """Simulate one question. Errors of its input or of the simulation are returned and not raised."""
    try:
        asked = read_collective(question)
        return _training(question) if asked is None else _collective(asked)
    except InputError as error:
        return Answer(mistakes=error.mistakes)
    except Exception as error:  # reported under `skipped`; all other figures are still compared
        return Answer(failure=f"{type(error).__name__}: {error}")


def is_collective(question: Question) -> bool:
    """Say whether a question asks for a collective and not for a training."""
    return "collective" in _read_once(question.file)[0].children


@cache
def _read_once(file: Path) -> tuple[TreeNode, list[Mistake]]:
    return read_scenario(file)


def forecast_options() -> dict[str, Any]:
    """Return the arguments of every `forecast` of a validation."""
    return {"workloads": _WORKLOADS, "numba_from_messages": _NUMBA_FROM_MESSAGES}


def training_point(question: Question) -> tuple[Point, Point]:
    """Return the point that a question asks for, and that with constants fitted without figures of its own case."""
    scenario = load_scenario(question.file, overrides=question.overrides)
    points = scenario.points()
    if len(points) != 1:
        lists = ", ".join(scenario.axes)
        message = f"a figure needs one point (got {len(points)}: a sweep over {lists}); add columns for these keys"
        raise InputError(message, got=f"{len(points)} points", allowed="one point")
    asked = with_law(points[0].point)
    return asked, _with_own_figures_left_out(question, asked)


def _training(question: Question) -> Answer:
    asked, fair = training_point(question)
    run = forecast(fair, detail=False, **forecast_options()).run
    document = replace(run, axes={}).to_dict(detail=False)
    group, method = group_and_method(asked)
    return Answer(document, group, method, document["features"])


_WORKLOADS = Workloads()
"""The layers of models that this process has computed."""


def _with_own_figures_left_out(question: Question, point: Point) -> Point:
    """Return the point with a transport whose constants were fitted without the figures of its own case."""
    sheet = sheet_without(question.file.resolve().parent.name, point.transport)
    if sheet is None:
        return point
    overrides = [*question.overrides, f"transport={sheet}"]
    return with_law(load_scenario(question.file, overrides=overrides).points()[0].point)


def with_law(point: Point) -> Point:
    """Return a point whose kernels have the law's times, unless its scenario says otherwise.

    What a validation finds then does not depend on whether measured tables are installed.
    """
    if point.compute.kernels != "auto":
        return point
    return point.model_copy(update={"compute": point.compute.model_copy(update={"kernels": "law"})})


def read_collective(
    question: Question, read: Callable[[Path], tuple[TreeNode, Sequence[Mistake]]] = read_scenario
) -> CollectiveQuestion | None:
    """Return the collective of a question; None if it is a training. All mistakes in it are raised.

    `read` returns a file's tree and the mistakes that do not stop reading; it may be a cached reader.
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
    method = f"{asked.transport} {asked.algorithm}"
    return Answer(row, json.dumps(plain, sort_keys=True, default=str), method)


def group_and_method(point: Point) -> tuple[str, str]:
    """Return a text of all keys but those of the synchronization method, and one of these."""
    everything = json.loads(point.model_dump_json(exclude=_WORDS))
    method = {key: everything.pop(key) for key in sorted(_METHOD_KEYS)}
    return json.dumps(everything, sort_keys=True), json.dumps(method, sort_keys=True)
