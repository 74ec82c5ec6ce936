"""A sweep as a flat table: one row per run, as CSV files and data frames have it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clustersim.errors import InputError

if TYPE_CHECKING:
    from pandas import DataFrame
    from polars import DataFrame as PolarsFrame

    from clustersim.results.run import Run, Sweep

Cell = float | str | None

_RATES = (
    *["samples_per_s_per_gpu", "tokens_per_s", "tokens_per_s_per_gpu", "mfu", "hfu", "host_share"],
    *["memory_bytes", "gpu_memory_bytes"],
    *["dollars_per_hour", "dollars_per_million_samples", "dollars_per_million_tokens", "train_dollars"],
)
"""Fields and properties of a run, each a column of its name."""

_ERROR = {
    "error": "kind",
    "error_message": "message",
    "needed_bytes": "needed_bytes",
    "available_bytes": "available_bytes",
    "remedy": "remedy",
}
"""The columns of an error, and its fields."""


def rows_of(sweep: Sweep, parts: Sequence[str]) -> list[dict[str, Cell]]:
    """Return each run as flat columns: axes by their dotted keys, then SI numbers with the unit in the name.

    A point without a forecast has no numbers; `error` is the kind of its error, and `error_message` says why.

    The `parts` of the iteration are `breakdown_compute_s` and so on, interval bounds `speedup_low` and
    `speedup_high`, those of the band `band_samples_per_s_low` and so on; a published figure is `published_hours`, a
    second one of that metric `published_hours_2`. Runs that really trained have columns `learning_time_to_target_s` and
    so on, and those with a forecast of another batch `learning_scale_time_s` and so on.
    """
    return [_row(sweep, run, parts) for run in sweep.runs]


def columns_of(rows: Iterable[Mapping[str, Cell]]) -> list[str]:
    """Return the columns of all rows in their order; not every row has all of them."""
    return list(dict.fromkeys(column for row in rows for column in row))


def data_frame(rows: Sequence[Mapping[str, Cell]]) -> DataFrame:
    """Return the rows as a pandas data frame, with NaN for what is missing."""
    try:
        from pandas import DataFrame
    except ModuleNotFoundError:
        raise InputError("pandas is not installed; pip install pandas", got="no pandas") from None
    missing = float("nan")
    cells = [{column: missing if cell is None else cell for column, cell in row.items()} for row in rows]
    return DataFrame(cells, columns=columns_of(rows))


def polars_frame(rows: Sequence[Mapping[str, Cell]]) -> PolarsFrame:
    """Return the rows as a polars data frame, with null for what is missing."""
    try:
        import polars
    except ModuleNotFoundError:
        raise InputError("polars is not installed; pip install polars", got="no polars") from None
    kinds = kinds_of(rows)
    columns = {name: [cell_as(kind, row.get(name)) for row in rows] for name, kind in kinds.items()}
    types = {int: polars.Int64, float: polars.Float64, str: polars.String}
    return polars.DataFrame(columns, schema={name: types[kind] for name, kind in kinds.items()})


Kind = type[int] | type[float] | type[str]
"""What all cells of a column are."""


def kinds_of(rows: Iterable[Mapping[str, Cell]]) -> dict[str, Kind]:
    """Return the kind of each column of all rows: the widest of its cells; a column without a value has numbers.

    >>> kinds_of([{"a": 1, "b": None}, {"a": 1.5, "c": "x"}, {"c": 1}])
    {'a': <class 'float'>, 'b': <class 'float'>, 'c': <class 'str'>}
    """
    found: dict[str, set[Kind]] = {}
    for row in rows:
        for name, cell in row.items():
            kinds = found.setdefault(name, set())
            if cell is not None:
                kinds.add(str if isinstance(cell, str | bool) else int if isinstance(cell, int) else float)
    return {name: str if str in kinds else int if kinds == {int} else float for name, kinds in found.items()}


def cell_as(kind: Kind, cell: Cell) -> Cell:
    """Return a cell as the kind of its column."""
    return None if cell is None else kind(cell)


def _row(sweep: Sweep, run: Run, parts: Sequence[str]) -> dict[str, Cell]:
    point: dict[str, Cell] = {"scenario": sweep.name, "seed": sweep.seed, "num_gpus": run.num_gpus}
    axes = {key: _cell(value) for key, value in run.axes.items() if key != "num_gpus"}
    figures = _figures(run, axes, parts)
    if run.error is not None:
        figures = dict.fromkeys(figures) | axes
    return point | figures | {column: getattr(run.error, name, None) for column, name in _ERROR.items()}


def _figures(run: Run, axes: Mapping[str, Cell], parts: Sequence[str]) -> dict[str, Cell]:
    """Return the columns of a run with the axes among them."""
    row: dict[str, Cell] = {"software": run.software, "transport": run.transport}
    row["precision"] = run.features.precision if run.features is not None else None
    row |= axes
    for name in ("batch_per_gpu", "iteration_s", "update_s", "samples_per_s", "speedup", "speedup_basis", "efficiency"):
        row[name] = getattr(run, name)
    for name in ("num_gpus", "batch", "micro_batches", "samples_per_s"):
        row[f"baseline_{name}"] = None if run.baseline is None else getattr(run.baseline, name)
    row["time_to_train_s"] = run.time_to_train_s
    row |= {f"breakdown_{part}_s": run.breakdown_s.get(part, 0.0) for part in parts}
    row |= _interval(run) | _band(run)
    row |= {f"staleness_{name}": run.staleness.get(name) for name in ("mean", "p50", "p99", "max")}
    for name in _RATES:
        row[name] = getattr(run, name)
    row |= {f"provenance_{name}": run.provenance.get(name, 0.0) for name in ("measured", "published", "estimated")}
    if run.anchor is not None:
        row |= {"anchor_factor": run.anchor.factor, "anchor_fixed_s": run.anchor.fixed_s}
        row["samples_per_s_without_anchor"] = run.anchor.samples_per_s_without
    return row | _learning(run) | _learning_scale(run) | _published(run)


def _learning(run: Run) -> dict[str, Cell]:
    """Return the columns of what was really trained; none of a run that trained nothing."""
    found = run.learning
    if found is None:
        return {}
    low, high = found.time_to_target_interval or (None, None)
    row: dict[str, Cell] = {
        "learning_time_to_target_s": found.time_to_target_s,
        "learning_time_to_target_s_low": low,
        "learning_time_to_target_s_high": high,
    }
    names = ("num_reached", "seeds", "samples_to_target", "final_loss", "final_accuracy", "updates", "diverged")
    return row | {f"learning_{name}": getattr(found, name) for name in names}


def _learning_scale(run: Run) -> dict[str, Cell]:
    """Return the columns of the forecast by `learning.scale`; none of a run without one."""
    found = run.learning_scale
    return {} if found is None else {f"learning_scale_{name}": cell for name, cell in vars(found).items()}


def _interval(run: Run) -> dict[str, Cell]:
    row: dict[str, Cell] = {"interval_level": run.interval.level if run.interval else None}
    for name in ("iteration_s", "samples_per_s", "speedup"):
        pair = getattr(run.interval, name) if run.interval else None
        row[f"{name}_low"], row[f"{name}_high"] = pair or (None, None)
    return row


def _band(run: Run) -> dict[str, Cell]:
    band = run.band
    low, high = band.samples_per_s if band else (None, None)
    half_low, half_high = band.half if band else (None, None)
    return {
        "band_level": band.level if band else None,
        "band_samples_per_s_low": low,
        "band_samples_per_s_high": high,
        "band_half_low": half_low,
        "band_half_high": half_high,
        "band_class": band.class_name if band else None,
        "band_sources": band.sources if band else None,
        "band_unchecked": "; ".join(band.unchecked) if band else None,
        "band_assumed": "; ".join(band.assumed) if band else None,
    }


def _published(run: Run) -> dict[str, Cell]:
    row: dict[str, Cell] = {}
    for point in run.published:
        name, number = f"published_{point.metric}", 2
        while name in row:
            name, number = f"published_{point.metric}_{number}", number + 1
        row[name] = point.value
    return row


def _cell(value: Any) -> Cell:
    """Return an axis value as one cell: a mapping or a list becomes its JSON text."""
    if isinstance(value, Mapping | list | tuple):
        return json.dumps(value, ensure_ascii=False)
    return value if value is None or isinstance(value, str | int | float) else str(value)
