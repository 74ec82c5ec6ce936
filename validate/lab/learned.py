"""First forecasts of real trainings, and their score.

python -m validate.lab.learned forecast             writes the first forecasts, once, before anything is run
python -m validate.lab --learning                   runs the trainings
python -m validate.lab.learned keep FILE            stores what they gave
python -m validate.lab.learned                      compares both
"""

from __future__ import annotations

import datetime
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, groupby
from pathlib import Path
from statistics import median
from typing import Any

from clustersim import __version__
from clustersim.errors import InputError
from clustersim.learning import LearningSpec, SharedModelOrder, train
from clustersim.learning.tasks import Trainee
from clustersim.results import Update, UpdateLog
from clustersim.results.files import to_json, write_atomically
from clustersim.validation.text import aligned
from validate.lab.case import Case, Measured
from validate.lab.document import read_campaign
from validate.lab.forecast import forecast
from validate.lab.learning import GROUP, TIME_TO_TARGET
from validate.lab.models import Trained, trainee_of

FOLDER = Path(__file__).resolve().parent / "kept"
FIRST = FOLDER / "learning-forecasts.json"
MEASURED = FOLDER / "learning.json"
SCHEMA = "clustersim.lab-forecasts/1"

MOST_MEDIAN_ERROR = 0.10
LEAST_RANKED = 0.9
DIFFERENT = 0.05
"""Pairs of strategies whose real times to the target differ by more than this share are ranked."""

_SAMPLES_TO_TARGET = "learning.samples_to_target"


def digest(case: Case) -> str:
    """Return a hash of a case's input."""
    text = json.dumps([case.ask, case.files], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def first_forecasts(cases: Sequence[Case]) -> dict[str, Any]:
    """Forecast cases that are not run yet; return the `clustersim.lab-forecasts/1` document."""
    asked = {metric: Measured.of([1.0]) for metric in (TIME_TO_TARGET, _SAMPLES_TO_TARGET)}
    rows = []
    for case in cases:
        figures = forecast(replace(case, figures=asked)).figures
        time_s, samples = figures[TIME_TO_TARGET], figures[_SAMPLES_TO_TARGET]
        row = {"name": case.name, "input": digest(case), "time_to_target_s": round(time_s, 4), "samples": samples}
        rows.append(row)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    made = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {"schema": SCHEMA, "version": __version__, "made": made, "code": commit, "forecasts": rows}


def read_first(path: Path = FIRST) -> dict[str, float]:
    """Return the first forecasts by name of the case, in seconds."""
    document = json.loads(path.read_text(encoding="utf-8"))
    return {row["name"]: row["time_to_target_s"] for row in document["forecasts"]}


@dataclass(frozen=True)
class Scored:
    """One real training: its cluster, its strategy, and the time to the target, in seconds."""

    place: str
    name: str
    real_s: float
    forecast_s: float

    @property
    def error(self) -> float:
        """The forecast over the real time, less 1."""
        return self.forecast_s / self.real_s - 1


def scored(cases: Sequence[Case], forecasts_s: Mapping[str, float]) -> list[Scored]:
    """Return real trainings beside forecasts by name of the case."""
    return [
        Scored(
            case.name.partition(", ")[2],
            case.name.partition(", ")[0],
            case.figures[TIME_TO_TARGET].median,
            forecasts_s[case.name],
        )
        for case in cases
        if case.group == GROUP
    ]


def ranked(rows: Sequence[Scored]) -> Iterator[tuple[Scored, Scored, bool]]:
    """Yield the pairs of strategies on one cluster that really differ by more than 5 %, the faster one first.

    Each is followed by whether the forecast says so.

    >>> rows = [Scored("here", name, *times) for name, *times in [("a", 1.0, 1.1), ("b", 1.2, 1.0), ("c", 1.21, 1.2)]]
    >>> [(one.name, other.name, is_right) for one, other, is_right in ranked(rows)]
    [('a', 'b', False), ('a', 'c', True)]
    """
    for one, other in combinations(rows, 2):
        if one.place != other.place:
            continue
        fast, slow = sorted((one, other), key=lambda row: row.real_s)
        if slow.real_s / fast.real_s - 1 > DIFFERENT:
            yield fast, slow, fast.forecast_s < slow.forecast_s


def missed(rows: Sequence[Scored]) -> list[str]:
    """Return the requirements that the trainings do not meet."""
    found = median(abs(row.error) for row in rows)
    pairs = [is_right for *_, is_right in ranked(rows)]
    right = sum(pairs) / len(pairs) if pairs else 1.0
    return [
        *([f"the median error is {found:.1%} (allowed: {MOST_MEDIAN_ERROR:.0%})"] if found > MOST_MEDIAN_ERROR else []),
        *([f"{right:.0%} of the pairs are ranked right (asked: {LEAST_RANKED:.0%})"] if right < LEAST_RANKED else []),
    ]


def table(rows: Sequence[Scored]) -> str:
    """Return the trainings, the median error and the ranking as text."""
    cells = [
        (row.place, row.name, f"{row.real_s:.1f} s", f"{row.forecast_s:.1f} s", f"{row.error:+.1%}") for row in rows
    ]
    pairs = list(ranked(rows))
    wrong = [f"{fast.name} before {slow.name} ({fast.place})" for fast, slow, is_right in pairs if not is_right]
    errors = [abs(row.error) for row in rows]
    return "\n".join(
        [
            *aligned([("cluster", "strategy", "real", "forecast", "error"), *cells], ("cluster", "strategy")),
            "",
            f"{len(rows)} trainings: median error {median(errors):.1%}, largest {max(errors):.1%}",
            f"{len(pairs) - len(wrong)} of {len(pairs)} pairs that differ by more than {DIFFERENT:.0%} ranked right",
            *(f"  not so: {pair}" for pair in wrong),
            *missed(rows),
        ]
    )


def logged(case: Case) -> UpdateLog:
    """Return the log of a real training."""
    columns = case.learned["log"]
    dropped, log = set(columns["dropped"]), UpdateLog()
    rows = zip(columns["time_s"], columns["worker"], columns["read"], columns["written"], strict=True)
    for number, (time_s, worker, read, written) in enumerate(rows):
        log.add(Update(time_s, worker, read, written, 1.0, number not in dropped))
    return log


class Watched:
    """A `Trainee` that keeps the weights that were evaluated last."""

    def __init__(self, trainee: Trainee):
        self._trainee = trainee
        self.last: Any = trainee.initial

    def __getattr__(self, name: str) -> Any:
        return getattr(self._trainee, name)

    def evaluate(self, weights: Any) -> tuple[float, float | None]:
        """Evaluate the weights, and keep a copy."""
        self.last = weights.clone()
        return self._trainee.evaluate(weights)


def replayed(case: Case) -> tuple[list[list[float]], Any]:
    """Train again in the order of a real training's log, with clustersim; return the curve and the last weights."""
    spec, seed = LearningSpec.model_validate(case.ask["learning"]), case.learned["learning_seed"]
    log, num_workers = logged(case), case.ask["num_gpus"]
    watched: Any = Watched(trainee_of(spec, seed))
    order = SharedModelOrder(num_workers, log, [(rank,) for rank in range(num_workers)])
    curve = train(order, spec, watched, seed).curve
    return [[float(value) for value in point if value is not None] for point in curve], watched.last


def retrained(case: Case) -> Any:
    """Train again as the real server did, gradient by gradient in the order of its log; return the last weights."""
    import torch

    torch.set_num_threads(1)
    log, num_workers = logged(case), case.ask["num_gpus"]
    spec, num_updates = LearningSpec.model_validate(case.ask["learning"]), max(log.version_written)
    model = Trained(spec, case.learned["learning_seed"], num_workers, num_updates)
    versions = {0: model.weights.clone()}
    for version, rows in groupby(log.rows(), key=lambda row: row.version_written):
        gradients = [(row.accepted, model.gradient(row.worker, versions[row.version_read])) for row in rows]
        model.update([gradient for accepted, gradient in gradients if accepted])
        versions[version] = model.weights.clone()
    return model.weights


def keep(path: Path) -> Path:
    """Store what real trainings gave."""
    document, cases = read_campaign(path)
    unknown = [case.name for case in cases if case.name not in read_first()]
    if unknown:
        raise InputError(f"no first forecast was made of {', '.join(unknown)}")
    return write_atomically(MEASURED, to_json(document) + "\n")


def main(arguments: Sequence[str]) -> str:
    """Run a command; return its text."""
    from validate.lab.campaign import LEARNING

    match arguments:
        case ["forecast"]:
            if FIRST.exists():
                raise InputError(f"{FIRST} exists; first forecasts are written once", got=str(FIRST))
            cases = [case for experiment in LEARNING for case in experiment.planned()]
            return str(write_atomically(FIRST, to_json(first_forecasts(cases), indent=1) + "\n"))
        case ["keep", path]:
            return str(keep(Path(path)))
        case []:
            return table(scored(read_campaign(MEASURED)[1], read_first()))
    return __doc__ or ""


if __name__ == "__main__":
    try:
        print(main(sys.argv[1:]))
    except InputError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_status)
