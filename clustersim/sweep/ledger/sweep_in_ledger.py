"""One sweep of a ledger as a result: read point by point, in the order of the scenario."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clustersim.results import Run, Sweep
from clustersim.results.rows import Cell, data_frame, polars_frame
from clustersim.simulate import Forecast
from clustersim.sweep.ledger.entry import unpack
from clustersim.sweep.ledger.shard import SweepShard
from clustersim.sweep.ledger.store import explained
from clustersim.sweep.sentences import Sentences

if TYPE_CHECKING:
    from pandas import DataFrame as PandasFrame
    from polars import DataFrame as PolarsFrame

_RESULTS = """
FROM points AS p LEFT JOIN forecasts AS f ON f.key = p.key
LEFT JOIN failures AS e ON e.sweep = p.sweep AND e.number = p.number AND f.key IS NULL
WHERE p.sweep = ? AND p.number % ? = ?
"""


@dataclass(frozen=True)
class PointCounts:
    """How many points have a forecast, how many failed by kind, how many are left, and the seconds of those done."""

    done: int
    failed: Mapping[str, int] = field(default_factory=dict)
    left: int = 0
    simulated_s: float = 0.0

    @property
    def num_points(self) -> int:
        """All points."""
        return self.done + sum(self.failed.values()) + self.left


class SweepInLedger:
    """A sweep that a ledger has, perhaps not all of its points yet."""

    def __init__(self, store: sqlite3.Connection, path: Path | None, number: int):
        self._store, self._path, self.number = store, path, number
        query = (
            "SELECT name, seed, num_points, scenario, scenario_text, exact, digest, (SELECT version FROM ledger)"
            " FROM sweeps WHERE id = ?"
        )
        with explained(path):
            row = store.execute(query, (number,)).fetchone()
        self.name, self.seed, self.num_points = str(row[0]), int(row[1]), int(row[2])
        self.scenario: dict[str, Any] = json.loads(row[3])
        self.scenario_text, self.exact, self.digest, self.version = str(row[4]), bool(row[5]), str(row[6]), str(row[7])

    def counts(self, rest: int = 0, num_shards: int = 1) -> PointCounts:
        """Return the counts of all points, or of those of a shard."""
        query = "SELECT f.key IS NOT NULL, e.kind, count(*), total(coalesce(f.seconds, e.seconds))"
        with explained(self._path):
            groups = self._store.execute(
                f"{query} {_RESULTS} GROUP BY 1, 2 ORDER BY 2", (self.number, num_shards, rest)
            ).fetchall()
        return PointCounts(
            done=sum(num for is_done, _, num, _ in groups if is_done),
            failed={kind: num for is_done, kind, num, _ in groups if not is_done and kind is not None},
            left=sum(num for is_done, kind, num, _ in groups if not is_done and kind is None),
            simulated_s=sum(seconds for *_, seconds in groups),
        )

    def missing_shards(self) -> dict[int, list[str]]:
        """Return, for each number of shards that was used, the shards that have points left."""
        with explained(self._path):
            used = self._store.execute(
                "SELECT num_shards FROM shards WHERE sweep = ? ORDER BY num_shards", (self.number,)
            ).fetchall()
            return {num: [f"{rest}/{num}" for rest in self._rests_left(num)] for (num,) in used}

    def _rests_left(self, num_shards: int) -> list[int]:
        query = f"SELECT DISTINCT p.number % {num_shards} {_RESULTS} AND f.key IS NULL AND e.number IS NULL ORDER BY 1"
        return [rest for (rest,) in self._store.execute(query, (self.number, 1, 0))]

    def forecasts(self) -> Iterator[Forecast]:
        """Yield the forecast of each point that has one or failed, in the order of the scenario."""
        query = f"SELECT p.axes, coalesce(f.forecast, e.forecast) {_RESULTS} ORDER BY p.number"
        with explained(self._path):
            for axes, packed in self._store.execute(query, (self.number, 1, 0)):
                if packed is not None:
                    yield unpack(packed, json.loads(axes))

    def failures(self, shard: SweepShard) -> Iterator[tuple[int, Run]]:
        """Yield the number and the run of each point of a shard that failed, in the order of the scenario."""
        query = f"SELECT p.number, p.axes, e.forecast {_RESULTS} AND e.kind IS NOT NULL ORDER BY p.number"
        with explained(self._path):
            for number, axes, packed in self._store.execute(query, (self.number, shard.num_shards, shard.rest)):
                yield number, unpack(packed, json.loads(axes)).run

    def rows(self) -> Iterator[dict[str, Cell]]:
        """Yield the rows of `Sweep.to_rows` one by one."""
        for made in self.forecasts():
            yield from self._as_sweep((made,)).to_rows()

    def to_rows(self) -> list[dict[str, Cell]]:
        """Return each point that was simulated or failed as flat columns, as `Sweep.to_rows`."""
        return list(self.rows())

    def to_pandas(self) -> PandasFrame:
        """Return the rows as a pandas data frame; InputError where pandas is not installed."""
        return data_frame(self.to_rows())

    def to_polars(self) -> PolarsFrame:
        """Return the rows as a polars data frame; InputError where polars is not installed."""
        return polars_frame(self.to_rows())

    def sweep(self) -> Sweep:
        """Return all runs as one result, without the rows per span, layer, link and rank."""
        return self._as_sweep(tuple(self.forecasts()))

    def empty(self, sentences: Sentences | None = None) -> Sweep:
        """Return the result without its runs."""
        return self._as_sweep((), sentences)

    def _as_sweep(self, forecasts: tuple[Forecast, ...], sentences: Sentences | None = None) -> Sweep:
        said = Sentences() if sentences is None else sentences
        for made in forecasts:
            said.add(made)
        return Sweep(
            version=self.version,
            scenario=self.scenario,
            seed=self.seed,
            runs=tuple(made.run for made in forecasts),
            assumptions=said.assumptions,
            warnings=said.warnings,
            shortcuts=said.shortcuts,
            scenario_text=self.scenario_text,
        )
