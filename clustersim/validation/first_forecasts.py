"""First forecasts of cases whose settings were committed before them: `validate/first_forecasts.csv`.

They are never rewritten.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import Any

from clustersim.data import data_folder
from clustersim.errors import InputError
from clustersim.reading.files import read_text

FIRST_FORECASTS_FILE = "first_forecasts.csv"


@dataclass(frozen=True)
class RecordedForecast:
    """The first forecast of one figure of a case; `forecast` and `measured` are in SI units.

    `published` is the year of the source's figures. `made` is when the settings were committed (ISO 8601), `settings`
    that commit, or `rebuilt` where it is not in the repository, and `code` the commit whose code gives this forecast.
    `label` is that of the figure on the page.
    """

    case: str
    source: str
    published: str
    made: str
    settings: str
    code: str
    num_gpus: int
    label: str
    metric: str
    unit: str
    measured: float
    forecast: float

    @property
    def error(self) -> float:
        """The error, forecast / measured - 1."""
        return self.forecast / self.measured - 1.0

    def is_of(self, metric: str, num_gpus: int, measured: float) -> bool:
        """Return whether it is the forecast of this figure of its case; `measured` is in SI units."""
        is_same = (self.metric, self.num_gpus) == (metric, num_gpus)
        return is_same and math.isclose(self.measured, measured, rel_tol=1e-6)


@cache
def recorded_forecasts() -> tuple[RecordedForecast, ...]:
    """Return every recorded first forecast, in the order of the file."""
    path = data_folder("validate") / FIRST_FORECASTS_FILE
    return tuple(_recorded(row) for row in csv.DictReader(io.StringIO(read_text(path))))


def _recorded(row: Mapping[str, str]) -> RecordedForecast:
    numbers: dict[str, Callable[[str], Any]] = {"num_gpus": int, "measured": float, "forecast": float}
    values: dict[str, Any] = {key: numbers.get(key, str)(text) for key, text in row.items()}
    return RecordedForecast(**values)


def median_first_error(cases: Iterable[str]) -> float:
    """Return the median absolute error of the first forecasts of these cases together."""
    names = set(cases)
    errors = [abs(each.error) for each in recorded_forecasts() if each.case in names]
    if not errors:
        raise InputError(f"no first forecast is recorded of {', '.join(sorted(names))}")
    return median(errors)
