"""The checked forecasts that bands are made from, as shipped: `bands.json`, which is read without any simulation."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from clustersim.results.band import MIN_SOURCES, Band, Bands, Checked, band_of
from clustersim.results.features import ANCHORED, FEATURES, Features
from clustersim.results.run import Run

BANDS_SCHEMA = "clustersim.bands/1"


@dataclass(frozen=True)
class TableResiduals:
    """Errors of the tables that estimates stand on, on rows that were not fitted: pairs of the median and nine in ten.

    `products` by architecture; `collectives` and `host` are of all rows.
    """

    products: Mapping[str, tuple[float, float]]
    collectives: tuple[float, float]
    host: tuple[float, float]

    def floors(self, run: Run, architecture: str) -> tuple[float, float]:
        """Return the least half width of a run's band at LEVEL and HALF, as logarithms.

        It is the sum over the parts of an iteration of their share times the logarithm of 1 + their table's error. For
        an architecture without a table the largest error counts. Times that were measured or published have none.
        """
        parts = run.breakdown_s
        estimated = run.provenance.get("estimated", 0.0)
        largest = tuple(max(pair[place] for pair in self.products.values()) for place in (0, 1))
        products = self.products.get(architecture, largest)
        shares = (
            (parts.get("compute", 0.0) * estimated, products),
            (parts.get("communication_exposed", 0.0), self.collectives),
            (parts.get("host", 0.0), self.host),
        )
        half, most = (
            sum(seconds / run.iteration_s * math.log1p(error[place]) for seconds, error in shares) for place in (0, 1)
        )
        return most, half


@dataclass(frozen=True)
class CheckedForecasts:
    """A `clustersim.bands/1` document.

    `seen_errors` are the errors (forecast / measured - 1) of this version in every case. They were seen during
    development, so no band is made from them.
    """

    version: str
    residuals: TableResiduals
    forecasts: tuple[Checked, ...]
    seen_errors: Mapping[str, tuple[float, ...]]

    def of_anchored(self, is_anchored: bool) -> tuple[Checked, ...]:
        """Return the forecasts with an anchor, or those without: one figure may have both."""
        return tuple(each for each in self.forecasts if (each.features.origin == ANCHORED) == is_anchored)

    def to_dict(self) -> dict[str, Any]:
        """Return the document; ratios to four digits."""
        rows = [{**asdict(each), "ratios": [round(ratio, 4) for ratio in each.ratios]} for each in self.forecasts]
        return {
            "schema": BANDS_SCHEMA,
            "version": self.version,
            "residuals": asdict(self.residuals),
            "forecasts": rows,
            "seen_errors": {case: [round(error, 4) for error in errors] for case, errors in self.seen_errors.items()},
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> CheckedForecasts:
        """Return the checked forecasts of a document; those with other features than this version's are left out."""
        assert document["schema"] == BANDS_SCHEMA, document["schema"]
        tables = document["residuals"]
        residuals = TableResiduals(
            products={name: tuple(pair) for name, pair in tables["products"].items()},
            collectives=tuple(tables["collectives"]),
            host=tuple(tables["host"]),
        )
        rows = [
            Checked(**{**row, "features": Features(**row["features"]), "ratios": tuple(row["ratios"])})
            for row in document["forecasts"]
            if set(row["features"]) == FEATURES
        ]
        seen = {case: tuple(errors) for case, errors in document.get("seen_errors", {}).items()}
        return cls(document["version"], residuals, tuple(rows), seen)


@cache
def shipped_forecasts() -> CheckedForecasts:
    """Return the checked forecasts of this version."""
    text = files("clustersim.results").joinpath("bands.json").read_text(encoding="utf-8")
    return CheckedForecasts.from_dict(json.loads(text))


@cache
def _shipped_bands(is_anchored: bool) -> Bands:
    return Bands(shipped_forecasts().of_anchored(is_anchored))


def band_of_run(run: Run, assumed: Sequence[str] = ()) -> Band | None:
    """Return the band of a run from the shipped checked forecasts; None without features, or with too few sources.

    `assumed` are the rates that the run rests on and that are guesses. A forecast with an anchor has the band of an
    estimate as long as too few anchored ones were checked.
    """
    features = run.features
    if features is None:
        return None
    bands = _shipped_bands(features.origin == ANCHORED)
    if features.origin == ANCHORED and bands.everything.sources < MIN_SOURCES:
        bands, features = _shipped_bands(False), replace(features, origin="estimated")
    floors = shipped_forecasts().residuals.floors(run, features.architecture)
    return band_of(bands, features, run.samples_per_s, floors, tuple(assumed))
