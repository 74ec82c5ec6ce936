"""The points of a what-if page: settings of the knobs, simulated in several processes, as plain data."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from clustersim.report.findings import findings
from clustersim.results.files import to_json
from clustersim.scenario import load_scenario
from clustersim.sweep import sweep
from clustersim.sweep.pool import ProcessPool
from clustersim.what_if import Evaluation, WhatIf
from clustersim.what_if.base import SIZES
from clustersim.what_if.planned_points import PlannedPoints, Rates, Settings, values_alone, values_combined

Document = dict[str, Any]
Progress = Callable[[float, str], None]
"""Takes the share that is done, 0 to 1, and what is in progress."""

_DIGITS = 6
"""Significant digits of the numbers of figures."""

_MOST_MARKS = 200
"""Bars of a timeline, so that hundreds of them can be mailed."""

Source = str | Path | Mapping[str, Any]


def points_of(
    source: Source, overrides: Sequence[str], most: int, workers: int, progress: Progress
) -> tuple[WhatIf, PlannedPoints, list[Document]]:
    """Return the scenario with its knobs, at most `most` planned points, and a document for each of these.

    Half of the points at most have a single knob turned; from their rates follows which knobs are combined.
    """
    study = WhatIf(source, overrides)
    _study.cache_clear()  # files may have changed since an earlier page of this process
    with ProcessPool(workers) as pool:

        def documents(settings: Sequence[Settings], done: int, of: int) -> list[Document]:
            tasks = [(_key(source, overrides), each) for each in settings]
            return pool.map(_document, tasks, lambda number, num: progress((done + num) / of, _words(settings[number])))

        alone = values_alone(study.knobs, (most - 1) // 2)
        single = study.distinct([{}, *({name: text} for name, texts in alone.items() for text in texts)])
        found = documents(single, 0, most)
        combined = values_combined(study.knobs, study.listed, _rates(study, found), most - len(single) + 1)
        planned = PlannedPoints(alone, combined)
        known = [dict(each) for each in single]
        others = [each for each in study.distinct(planned.combinations()) if each not in known]
        found += documents(others, len(single), len(single) + len(others))
    _add_question(study, found, source, overrides, workers)
    return study, planned, found


def _add_question(
    study: WhatIf, documents: Sequence[Document], source: Source, overrides: Sequence[str], workers: int
) -> None:
    """Add to the fastest of the settings that the scenario lists the answer of the whole scenario.

    The page opens there. A scenario that lists nothing but numbers of GPUs is answered by its own point.
    """
    listed = [name for name in study.listed if name != SIZES]
    if not listed:
        return
    among = [each for each in documents if each["rate"] is not None and set(each["settings"]) <= set(listed)]
    best = max(among, key=lambda each: float(each["rate"]), default=None)
    if best is None:
        return
    headline, *more = findings(sweep(load_scenario(source, overrides, strict=False), workers=workers, learns=False))
    stops = {knob.label: knob.stop(best["settings"].get(knob.name, knob.now.text)) for knob in study.knobs
             if knob.name in listed}  # fmt: skip
    shown = "; ".join(f"{label}: {stop.label}" for label, stop in stops.items())
    best["question"] = {"headline": headline, "more": " ".join([*more, f"Shown below: {shown}."])}


def _rates(study: WhatIf, documents: Sequence[Document]) -> Rates:
    """Return the rates of the points with a single knob turned, and that of the scenario for each knob's own value."""
    own = documents[0]["rate"]
    rates = {(knob.name, knob.now.text): own for knob in study.knobs if own is not None}
    for document in documents[1:]:
        ((name, text),) = document["settings"].items()
        if document["rate"] is not None:
            rates[name, text] = document["rate"]
    return rates


def _words(settings: Settings) -> str:
    return ", ".join(f"{name} {text}" for name, text in settings.items())


def _key(source: Source, overrides: Sequence[str]) -> str:
    kind = "keys" if isinstance(source, Mapping) else "name"
    return to_json([kind, source if isinstance(source, Mapping) else str(source), list(overrides)])


@lru_cache(maxsize=1)
def _study(key: str) -> WhatIf:
    """Return the study of a scenario, once in each process."""
    import json

    _, source, overrides = json.loads(key)
    return WhatIf(source, overrides)


def _document(task: tuple[str, Settings]) -> Document:
    """Return the document of a point, in a worker process."""
    key, settings = task
    return document_of(_study(key).evaluate(settings))


def document_of(evaluation: Evaluation) -> Document:
    """Return what the page shows of a point. Names of files of this machine are left out of messages."""
    found = evaluation.to_dict(_MOST_MARKS)
    found["headline"], *more = findings(evaluation.sweep) if evaluation.sweep else ("",)
    found["more"] = " ".join(more)
    found["rate"] = evaluation.run.samples_per_s if evaluation.run else None
    found["refusal"] = [": ".join(filter(None, (each["key"], each["message"]))) for each in found["refusal"]]
    found["left_out"] = {size: _message(why) for size, why in found["left_out"].items()}
    found["figures"] = rounded(found["figures"])
    if "scaling" in found["figures"]:
        found["figures"]["scaling"]["layout"] = _wide(found["figures"]["scaling"]["layout"])
    return found


def _message(text: str) -> str:
    r"""Return the first line of a mistake, without the place in a file.

    >>> _message("/home/me/a.yaml:16:3: parallelism: this needs 115 GB\n      tensor: 1\n      ^")
    'parallelism: this needs 115 GB'
    """
    return re.sub(r"^\S.*?:\d+:\d+: ", "", text.partition("\n")[0])


def _wide(layout: Mapping[str, Any]) -> dict[str, Any]:
    """Return the layout of a figure that takes the whole width instead of having equal decades on both axes."""
    equal = {"scaleanchor", "scaleratio", "constrain", "constraintoward"}
    return {
        name: {key: each for key, each in value.items() if key not in equal} if name in ("xaxis", "yaxis") else value
        for name, value in layout.items()
    }


def rounded(value: Any) -> Any:
    """Return plain data with numbers of six digits.

    >>> rounded({"x": [0.1234567, 3, None]})
    {'x': [0.123457, 3, None]}
    """
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, Mapping):
        return {key: rounded(each) for key, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, list | tuple) else value
