"""How right forecasts like this one have been, from the error budget that comes with the results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clustersim.report.words import percent, plural
from clustersim.results import Run, Sweep
from clustersim.results.budget import Kind, KnownError, compute_kind, known_error, layout_kind, model_kind, nearest_case


def error_of_such(sweep: Sweep, run: Run) -> KnownError | None:
    """Return the error of the validated forecasts nearest to a run; None where none is near.

    Where network adapters stand idle that a real library would use, no validated forecast is like it.
    """
    if run.adapters is not None and run.adapters[0] < run.adapters[1]:
        return None
    kind = kind_of(sweep, run)
    return None if kind is None else known_error(kind)


def kind_of(sweep: Sweep, run: Run) -> Kind | None:
    """Return what kind of training a run is, from what was asked; None where the scenario does not say it."""
    strategy = _value(sweep, run, "strategy", "kind")
    if not isinstance(strategy, str) or not run.rank_names:
        return None
    return Kind(
        strategy=strategy,
        transport=str(_value(sweep, run, "transport") or "ideal"),
        num_gpus=run.num_gpus,
        num_hosts=len({name.rpartition("/")[0] or name for name in run.rank_names}),
        model=model_kind(_value(sweep, run, "model")),
        layout=layout_kind(run.layout),
        compute=compute_kind(run.provenance),
    )


def _value(sweep: Sweep, run: Run, *path: str) -> Any:
    """Return a key of the scenario at a run's place on the axes; an axis of whole maps is labelled by their kind."""
    dotted = ".".join(path)
    if dotted in run.axes:
        return run.axes[dotted]
    if path[0] in run.axes:
        return str(run.axes[path[0]]).partition(" ")[0]
    value: Any = sweep.scenario
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def told(found: KnownError) -> str:
    """Say what the known error stands on."""
    named = ", ".join(found.cases[:3]) + (f" and {len(found.cases) - 3} more" if len(found.cases) > 3 else "")
    return f"median of the {plural(found.num_points, 'nearest validated point')} ({named})"


def sentence(found: KnownError) -> str:
    """Say how far forecasts like this one have been off."""
    return (
        f"Of the {plural(found.num_points, 'validated forecast')} nearest to this one, half were within "
        f"{percent(found.median)} of what was measured and nine in ten within {percent(found.p90)}."
    )


def why_none(sweep: Sweep, run: Run) -> str:
    """Say why no validated forecast is like this one: in what the nearest differs."""
    kind = kind_of(sweep, run)
    found = None if kind is None else nearest_case(kind)
    unknown = "How far off this forecast is, nobody has measured"
    if found is None or not found[1]:
        return f"{unknown}."
    *others, last = found[1]
    return (
        f"{unknown}; the nearest case, {found[0]}, differs in {' and '.join(filter(None, [', '.join(others), last]))}."
    )
