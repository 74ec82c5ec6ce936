"""Expected error of a forecast: that of similar validated cases in the shipped error budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clustersim.report.words import percent, plural
from clustersim.results import Run, Sweep
from clustersim.results.budget import Kind, KnownError, compute_kind, known_error, layout_kind, model_kind, nearest_case


def similar_case_error(sweep: Sweep, run: Run) -> KnownError | None:
    """Return the error of the validated forecasts most similar to a run; None where none is similar.

    None too where network adapters are idle that a real library would use.
    """
    if run.adapters is not None and run.adapters[0] < run.adapters[1]:
        return None
    kind = kind_of(sweep, run)
    return None if kind is None else known_error(kind)


def kind_of(sweep: Sweep, run: Run) -> Kind | None:
    """Return the kind of training of a run, from its scenario; None where the scenario does not say it."""
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
        compute=compute_kind(run.provenance, run.kernels),
    )


def _value(sweep: Sweep, run: Run, *path: str) -> Any:
    """Return the value of a scenario key for a run; an axis whose values are mappings is labelled by their kind."""
    dotted = ".".join(path)
    if dotted in run.axes:
        return run.axes[dotted]
    if path[0] in run.axes:
        return str(run.axes[path[0]]).partition(" ")[0]
    value: Any = sweep.scenario
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def error_source(found: KnownError) -> str:
    """Say which cases the error is from."""
    named = ", ".join(found.cases[:3]) + (f" and {len(found.cases) - 3} more" if len(found.cases) > 3 else "")
    return f"median of {plural(found.num_points, 'similar validated point')} ({named})"


def error_sentence(found: KnownError) -> str:
    """Say how large the errors of similar forecasts were."""
    return (
        f"Of {plural(found.num_points, 'similar validated forecast')}, half were within {percent(found.median)} of the "
        f"measurement and {percent(0.9)} within {percent(found.p90)}."
    )


def no_similar_case(sweep: Sweep, run: Run) -> str:
    """Say why no validated forecast is similar: how the nearest one differs."""
    kind = kind_of(sweep, run)
    found = None if kind is None else nearest_case(kind)
    unknown = "The error of this forecast is unknown"
    if found is None or not found[1]:
        return f"{unknown}."
    *others, last = found[1]
    return (
        f"{unknown}; the nearest case, {found[0]}, differs in {' and '.join(filter(None, [', '.join(others), last]))}."
    )
